"""Keep payloads that are too large for a message in a bucket.

The object is written before the message is sent, and named by its content, so that a repeated send
names the same one and makes it young again. A worker reads from its own bucket only, whatever a
message says.

What is *not* guaranteed: that the object is still there. The bucket's lifecycle rule has to keep it
for as long as the message can come back, from the dead letter queue too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sekali.aws_faults import faults_of
from sekali.bodies import parse, to_json
from sekali.codec import payload_hash
from sekali.contract import PAYLOAD_PREFIX
from sekali.errors import MessageInvalid
from sekali.offloaded import OffloadedPayload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.contract import PayloadRef

LARGEST_BYTES: Final = 32 * 1024 * 1024
"""A payload is parsed in memory, beside the others of its batch."""


class Payloads:
    """The payloads in one bucket. Nothing is connected before the first one."""

    # Any: boto3 makes its classes at run time.
    def __init__(self, bucket: str, client: Callable[[], Any]) -> None:
        """Take the bucket's name and how to get the client."""
        self._bucket = bucket
        self._client = client

    def put(self, name: str, payload: Mapping[str, object]) -> OffloadedPayload:
        """Write a payload of the job `name`; what is returned stands for it in a message.

        Raises:
            MessageInvalid: it is no JSON, or larger than a worker would read.
            StoreUnavailable: it may or may not have been written. Repeat it.
        """
        digest = payload_hash(payload)
        text = to_json(payload).encode()
        if len(text) > LARGEST_BYTES:
            rule = f"must have at most {LARGEST_BYTES} bytes"
            raise MessageInvalid("payload_rejected", "payload", rule, len(text))
        key = f"{PAYLOAD_PREFIX}{name}/{digest}"
        with faults_of("put payload"):
            self._client().put_object(
                Bucket=self._bucket, Key=key, Body=text, ContentType="application/json"
            )
        return OffloadedPayload(key, digest=digest, read=self._read)

    def behind(self, ref: PayloadRef) -> OffloadedPayload:
        """Return the payload that a message refers to, unread."""
        return OffloadedPayload(ref.key, digest=ref.hash, read=self._read)

    def _read(self, key: str) -> Mapping[str, object]:
        from botocore.exceptions import ClientError

        with faults_of("fetch payload"):
            try:
                found = self._client().get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"NoSuchKey", "404"}:
                    raise
                rule = "must name an object that exists"
                raise MessageInvalid("payload_missing", "payload_ref", rule, key) from error
            size_bytes = found["ContentLength"]
            if size_bytes > LARGEST_BYTES:
                rule = f"must name an object of at most {LARGEST_BYTES} bytes"
                raise MessageInvalid("payload_rejected", "payload_ref", rule, size_bytes)
            content: bytes = found["Body"].read()
        return parse(content.decode("utf-8", "replace"), field="payload_ref")
