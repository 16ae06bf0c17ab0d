"""The environment variables that Lambda sets for every function, and the search path with them."""

import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from infra.local import differences
from infra.local.template import Function


def reserved_variables(
    function: Function, *, runtime: Path, folder: Path, runtime_api: str
) -> dict[str, str]:
    """Set what Lambda sets, which a function's own variables cannot change.

    https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
    """
    layers = list(_layer_paths(function))
    stream = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{secrets.token_hex(16)}"
    return {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_SESSION_TOKEN": "local",
        "AWS_DEFAULT_REGION": differences.REGION,
        "AWS_REGION": differences.REGION,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mib),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
        "AWS_XRAY_DAEMON_ADDRESS": "127.0.0.1:2000",
        "_AWS_XRAY_DAEMON_ADDRESS": "127.0.0.1",
        "_AWS_XRAY_DAEMON_PORT": "2000",
        "_HANDLER": function.handler,
        "HOME": str(folder),
        "LAMBDA_RUNTIME_DIR": str(runtime),
        "LAMBDA_TASK_ROOT": str(function.code),
        "LANG": "en_US.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([str(function.code), *layers, str(runtime)]),
        # Lambda's assets are read-only.
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(folder),
        "TZ": ":UTC",
    }


def _layer_paths(function: Function) -> Iterator[str]:
    """Order the layers' folders as Lambda does, where a later layer hides an earlier one."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for layer in reversed(function.layers):
        yield str(layer / "python" / "lib" / version / "site-packages")
        yield str(layer / "python")
