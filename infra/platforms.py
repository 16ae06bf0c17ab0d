"""What the functions run on: Lambda, or this machine for the local stack."""

import platform
import sys
import sysconfig
from dataclasses import dataclass
from typing import Final

from infra.invalid import ConfigInvalid

_LAMBDA_PYTHONS: Final = ((3, 11), (3, 14))


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the functions run on, and what pip must be told to install for it."""

    architecture: str
    python: str
    wheels: str
    pip_arguments: tuple[str, ...]
    cache_iam: bool
    deployed: bool


def aws_platform() -> Platform:
    """Describe Lambda: arm64 (a fifth cheaper per millisecond) and a current runtime."""
    return Platform(
        architecture="arm64",
        python="3.13",
        wheels="manylinux_2_28_aarch64",
        # Both tags: pip takes wheels of the newer glibc only when it is named (Amazon Linux 2023
        # has 2.34).
        pip_arguments=(
            "--platform=manylinux2014_aarch64",
            "--platform=manylinux_2_28_aarch64",
            "--implementation=cp",
            "--python-version=3.13",
        ),
        cache_iam=True,
        deployed=True,
    )


def host_platform() -> Platform:
    """Describe this machine, for the local stack; these three are all that it changes.

    arm64 wheels and another Python's do not load here, and nobody here can check the signature
    that IAM authentication sends. (Endpoints, and TLS with them, are replaced when the stack is
    run, not in the template.)
    """
    lowest, highest = _LAMBDA_PYTHONS
    version = sys.version_info[:2]
    if not lowest <= version <= highest:
        raise ConfigInvalid(
            name="target=host",
            rule="run by a Python that Lambda has too (3.11 to 3.14)",
            value=platform.python_version(),
        )
    machine = platform.machine().lower()
    return Platform(
        architecture="arm64" if machine in {"arm64", "aarch64"} else "x86_64",
        python=f"{version[0]}.{version[1]}",
        wheels=sysconfig.get_platform(),
        pip_arguments=(),
        cache_iam=False,
        deployed=False,
    )
