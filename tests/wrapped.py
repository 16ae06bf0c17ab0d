"""Bodies as SNS, EventBridge and S3 put them on a queue, with the fields that they really have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SENT_MS = 1_700_000_000_500
SENT = SENT_MS / 1000

Body = dict[str, Any]  # Any: the JSON of a foreign service


def record(
    body: object, *, attributes: Mapping[str, object] | None = None, **system: str
) -> dict[str, object]:
    """Return one record of an SQS event, at a fixed time."""
    return {
        "messageId": "m-1",
        "receiptHandle": "r-1",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {
            "SentTimestamp": str(SENT_MS),
            "ApproximateReceiveCount": "1",
            **system,
        },
        "messageAttributes": attributes or {},
    }


def text_attribute(value: str) -> dict[str, str]:
    """Return a message attribute as Lambda hands it over."""
    return {"stringValue": value, "dataType": "String"}


def sns(message: object, *, attributes: Mapping[str, Any] | None = None, **fields: object) -> Body:
    """Return the notification of a topic whose subscription is not raw."""
    body: Body = {
        "Type": "Notification",
        "MessageId": "dc1e94d9-56c5-5e96-808d-cc7f68faa162",
        "TopicArn": "arn:aws:sns:eu-west-1:111122223333:reports",
        "Subject": "report wanted",
        "Message": message if isinstance(message, str) else json.dumps(message),
        "Timestamp": "2021-02-16T21:41:19.978Z",
        "SignatureVersion": "1",
        "Signature": "FMG5tlZhJNHLHUXvZgtZzlk24FzVa7oX0T4P03neeXw8ZEXZx6z35j2FOTuNYShn2h0bKNC==",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
    }
    if attributes is not None:
        body["MessageAttributes"] = {
            name: value if isinstance(value, dict) else {"Type": "String", "Value": value}
            for name, value in attributes.items()
        }
    return body | fields


def sns_fifo(message: object) -> Body:
    """Return the notification of a FIFO topic, which signs nothing and numbers its messages."""
    body = sns(message, SequenceNumber="10000000000000003000")
    signed = ("SignatureVersion", "Signature", "SigningCertURL", "Subject")
    return {name: value for name, value in body.items() if name not in signed}


def subscription() -> Body:
    """Return what a topic of another account sends until its subscription is confirmed."""
    return {
        "Type": "SubscriptionConfirmation",
        "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        "Token": "2336412f37fb687f5d51e6e2425",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:reports",
        "Message": "You have chosen to subscribe to the topic.",
        "SubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription",
        "Timestamp": "2012-04-26T20:45:04.751Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLEpH+DcEwjAPg8O9mY8dReBSwksfg2S7WKQcikcNKWLQjwu6A4VbeS0QHVCkhRS7fUQ==",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
    }


def eventbridge(payload: object, **fields: object) -> Body:
    """Return the event of a bus, as a rule's target gets it without an input transformer."""
    return {
        "version": "0",
        "id": "fe8d3c65-xmpl-c5c3-2c87-81584709a377",
        "detail-type": "Report Wanted",
        "source": "flights.desk",
        "account": "123456789012",
        "time": "2020-07-28T16:51:12Z",
        "region": "us-east-2",
        "resources": [],
        "detail": payload,
    } | fields


def s3_record(**stored: object) -> Body:
    """Return one record of a bucket's notification."""
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-west-2",
        "eventTime": "1970-01-01T00:00:00.123Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AIDAJDPLRKLG7UEXAMPLE"},
        "requestParameters": {"sourceIPAddress": "172.16.0.1"},
        "responseElements": {
            "x-amz-request-id": "C3D13FE58DE4C810",
            "x-amz-id-2": "FMyUVURIY8/IgAtTv8xRjskZQpcIZ9KG4V5Wp6S7S/JRWeUWerMUE5JgHvANOjpD",
        },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "testConfigRule",
            "bucket": {
                "name": "flights",
                "ownerIdentity": {"principalId": "A3NL1KOZZKExample"},
                "arn": "arn:aws:s3:::flights",
            },
            "object": {
                "key": "year%3D2013/Happy+Face.csv",
                "size": 1024,
                "eTag": "d41d8cd98f00b204e9800998ecf8427e",
                "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
                "sequencer": "0055AED6DCD90281E5",
            }
            | stored,
        },
    }


def s3(*records: Body) -> Body:
    """Return the notification of a bucket."""
    return {"Records": list(records) or [s3_record()]}


def s3_test() -> Body:
    """Return what a bucket sends once when its notifications are set up."""
    return {
        "Service": "Amazon S3",
        "Event": "s3:TestEvent",
        "Time": "2014-10-13T15:57:02.089Z",
        "Bucket": "flights",
        "RequestId": "5582815E1AEA5ADF",
        "HostId": "8cLeGAmw098X5cv4Zkwcmo8vvZa3eH3eKxsPzbB9wrR+YstdA6Knx4Ip8EXAMPLE",
    }
