"""The two layers of every function: the library, and the packages that it needs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import jsii
from aws_cdk import (
    Annotations,
    AssetHashType,
    BundlingOptions,
    DockerImage,
    IgnoreMode,
    ILocalBundling,
)
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra import bytecode, vendor
from infra.platforms import Platform

# Never pulled: the local bundling below does the work, or fails.
_NO_IMAGE: Final = "local-bundling-only"
LIBRARY: Final = vendor.ROOT / "layers" / "sekali" / "python" / "sekali"
# What the public layer of Powertools brings, as its folders are called.
POWERTOOLS_PACKAGES: Final = (
    "aws_lambda_powertools",
    "aws_xray_sdk",
    "jmespath",
    "typing_extensions*",
    "wrapt*",
)


def handlers_code() -> lambda_.Code:
    """Pack the handlers from the root, so that `handlers.reports` is their import path here too."""
    return lambda_.Code.from_asset(
        str(vendor.ROOT),
        exclude=["/*", "!/handlers", "**/__pycache__"],
        ignore_mode=IgnoreMode.GIT,
    )


def library_layer(
    scope: Construct,
    construct_id: str,
    *,
    runtime: lambda_.Runtime,
    architecture: lambda_.Architecture,
) -> lambda_.LayerVersion:
    """Pack the library, and nothing that tools or test runs leave beside it.

    The asset's hash is the sources' and the way of compiling them. Where nothing compiles for the
    runtime, the synth is told so here, for both layers.
    """
    python = runtime.name.removeprefix("python")
    layer = lambda_.LayerVersion(
        scope,
        construct_id,
        description="The library: sekali",
        compatible_runtimes=[runtime],
        compatible_architectures=[architecture],
        code=lambda_.Code.from_asset(
            str(LIBRARY),
            exclude=["**/__pycache__"],
            ignore_mode=IgnoreMode.GIT,
            bundling=_bundling(
                lambda layer: shutil.copytree(
                    LIBRARY,
                    layer / "python" / LIBRARY.name,
                    ignore=shutil.ignore_patterns("__pycache__"),
                ),
                python=python,
            ),
        ),
    )
    if bytecode.interpreter(python) is None:
        Annotations.of(layer).add_info_v2("sekali:no-bytecode", bytecode.absence(python))
    return layer


def vendor_layer(
    scope: Construct,
    construct_id: str,
    *,
    platform: Platform,
    without_powertools: bool,
    runtime: lambda_.Runtime,
    architecture: lambda_.Architecture,
) -> lambda_.LayerVersion:
    """Pack the third-party packages.

    The asset's hash is the lock's, the platform's and the way of compiling them.
    """
    left_out = POWERTOOLS_PACKAGES if without_powertools else ()
    ignored = [pattern for name in left_out for pattern in (name, f"{name}-*")]
    return lambda_.LayerVersion(
        scope,
        construct_id,
        description="Third-party packages",
        compatible_runtimes=[runtime],
        compatible_architectures=[architecture],
        code=lambda_.Code.from_asset(
            str(vendor.LOCK.parent),
            asset_hash=vendor.fingerprint(platform, left_out=left_out),
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=_bundling(
                lambda layer: shutil.copytree(
                    vendor.install(platform),
                    layer,
                    ignore=shutil.ignore_patterns(*ignored),
                    dirs_exist_ok=True,
                ),
                python=platform.python,
            ),
        ),
    )


def powertools_layer(
    scope: Construct, construct_id: str, *, platform: Platform
) -> lambda_.ILayerVersion:
    """Take AWS' own layer of Powertools, in the version that the lock names.

    Its ARN has a number that is not the version's; a public parameter in each region tells it, and
    CloudFormation reads that when it deploys.
    """
    parameter = (
        f"/aws/service/powertools/python/{platform.architecture}/python{platform.python}"
        f"/{vendor.locked_version('aws-lambda-powertools')}"
    )
    arn = ssm.StringParameter.value_for_string_parameter(scope, parameter)
    return lambda_.LayerVersion.from_layer_version_arn(scope, construct_id, arn)


def _bundling(fill: Callable[[Path], object], *, python: str) -> BundlingOptions:
    """Have a layer filled and compiled; all that is told here is part of the asset's hash."""
    interpreter = bytecode.interpreter(python)
    return BundlingOptions(
        image=DockerImage.from_registry(_NO_IMAGE),
        environment={"BYTECODE": bytecode.fingerprint(python) if interpreter else "none"},
        local=_LocalBundling(fill, interpreter),
    )


@jsii.implements(ILocalBundling)
class _LocalBundling:
    """Makes a layer where the CDK wants it, without Docker."""

    def __init__(self, fill: Callable[[Path], object], interpreter: str | None) -> None:
        self._fill = fill
        self._interpreter = interpreter

    def try_bundle(self, output_dir: str, *_options: object, **_named: object) -> bool:
        """Do the bundling; never leave it to Docker, whose answer would hide pip's error."""
        # jsii passes the options as one argument, its types declare them by name.
        layer = Path(output_dir)
        self._fill(layer)
        if self._interpreter is not None:
            bytecode.add(layer, interpreter=self._interpreter)
        return True
