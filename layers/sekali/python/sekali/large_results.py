"""Keep results that are too large for a table's item in a bucket.

An item of DynamoDB holds 400 KB, names and all. A larger result becomes an object, written before
the item that points to it, so that a pointer never precedes what it points to. The object is named
by its content: writing it twice is harmless, two results of one id never share an object, and a
reader notices a damaged one. An object whose item was refused stays until the bucket's lifecycle
rule removes it; that rule must keep objects longer than any record or cached value that points to
them.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Protocol

from sekali.aws_faults import faults_of
from sekali.errors import StoreUnavailable
from sekali.store_rows import POINTER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LARGEST_ITEM_RESULT_BYTES = 300 * 1024
"""Results above this go to the bucket; the rest of an item stays below its 400 KB."""

_POINTER = re.compile(rb"s3:(results/[A-Za-z0-9_.-]{1,64}/[0-9a-f]{64}/([0-9a-f]{64}))")


class ObjectClient(Protocol):
    """Be the part of boto3's S3 client that is used here."""

    def put_object(self, **request: object) -> object:
        """Write an object."""
        ...

    # Any: boto3's answers are dictionaries whose types depend on the call.
    def get_object(self, **request: object) -> Mapping[str, Any]:
        """Read an object."""
        ...


class LargeResults:
    """Write and read the objects of one bucket."""

    def __init__(self, bucket: str, client: Callable[[], ObjectClient]) -> None:
        """Take the bucket's name and how to get the client when it is first needed."""
        self._bucket = bucket
        self._client = client

    def put(self, name: str, job_id: str, result: bytes) -> bytes:
        """Write a result and return the pointer to it.

        Raises:
            StoreUnavailable: it may or may not have been written. Repeat it.
        """
        key = object_key(name, job_id, result)
        with faults_of("put"):
            self._client().put_object(Bucket=self._bucket, Key=key, Body=result)
        return POINTER_PREFIX + key.encode()

    def get(self, pointer: bytes) -> bytes:
        """Return the result behind a pointer.

        Raises:
            StoreUnavailable: it cannot be read, is not there any more, is not one of ours, or its
                content is not what its name says.
        """
        key, digest = parse_pointer(pointer)
        with faults_of("fetch"):
            body: bytes = self._client().get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return verified(body, digest)


def object_key(name: str, job_id: str, result: bytes) -> str:
    """Name an object by its job, the hash of its id and the hash of its content."""
    owner = hashlib.sha256(job_id.encode()).hexdigest()
    return f"results/{name}/{owner}/{hashlib.sha256(result).hexdigest()}"


def parse_pointer(pointer: bytes) -> tuple[str, str]:
    """Return the object's key and the hash of its content."""
    match = _POINTER.fullmatch(pointer)
    if match is None:
        raise StoreUnavailable("fetch", "a pointer that is not ours")
    return match[1].decode(), match[2].decode()


def verified(body: bytes, digest: str) -> bytes:
    """Return a body whose content is what its name says."""
    if hashlib.sha256(body).hexdigest() != digest:
        raise StoreUnavailable("fetch", "an object whose content is not what its name says")
    return body


def is_large(result: bytes) -> bool:
    """Tell whether a result needs an object; a pointer never does."""
    return len(result) > LARGEST_ITEM_RESULT_BYTES
