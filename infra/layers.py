"""The two layers of every function: the library, and the packages that it needs."""

import shutil
from collections.abc import Sequence
from typing import Final

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, IgnoreMode, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra import vendor
from infra.platforms import Platform

# Never pulled: the local bundling below does the work, or fails.
_NO_IMAGE: Final = "local-bundling-only"
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
    """Pack `layers/sekali/python/sekali`, and nothing that tools or test runs leave beside it."""
    return lambda_.LayerVersion(
        scope,
        construct_id,
        description="The library: sekali",
        compatible_runtimes=[runtime],
        compatible_architectures=[architecture],
        code=lambda_.Code.from_asset(
            str(vendor.ROOT / "layers" / "sekali"),
            exclude=["/*", "!/python", "/python/*", "!/python/sekali", "**/__pycache__"],
            ignore_mode=IgnoreMode.GIT,
        ),
    )


def vendor_layer(
    scope: Construct,
    construct_id: str,
    *,
    platform: Platform,
    without_powertools: bool,
    runtime: lambda_.Runtime,
    architecture: lambda_.Architecture,
) -> lambda_.LayerVersion:
    """Pack the third-party packages; the asset's hash is the lock's and the platform's alone."""
    left_out = POWERTOOLS_PACKAGES if without_powertools else ()
    fingerprint = vendor.fingerprint(platform, left_out=left_out)
    return lambda_.LayerVersion(
        scope,
        construct_id,
        description="Third-party packages",
        compatible_runtimes=[runtime],
        compatible_architectures=[architecture],
        code=lambda_.Code.from_asset(
            str(vendor.LOCK.parent),
            asset_hash=fingerprint,
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=BundlingOptions(
                image=DockerImage.from_registry(_NO_IMAGE),
                local=_VendorBundling(platform, left_out),
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


@jsii.implements(ILocalBundling)
class _VendorBundling:
    """Copies the installed packages to where the CDK wants them, without Docker."""

    def __init__(self, platform: Platform, left_out: Sequence[str]) -> None:
        self._platform = platform
        self._left_out = [pattern for name in left_out for pattern in (name, f"{name}-*")]

    def try_bundle(self, output_dir: str, *_options: object, **_named: object) -> bool:
        """Do the bundling; never leave it to Docker, whose answer would hide pip's error."""
        # jsii passes the options as one argument, its types declare them by name.
        shutil.copytree(
            vendor.install(self._platform),
            output_dir,
            ignore=shutil.ignore_patterns(*self._left_out),
            dirs_exist_ok=True,
        )
        return True
