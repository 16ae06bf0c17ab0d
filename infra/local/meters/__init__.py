"""What AWS publishes by itself: metrics of what the local stack really did.

| namespace | read from |
|---|---|
| AWS/Lambda | each invocation, its end, and the messages of each batch |
| AWS/SQS | the calls of functions, pollers and senders; the server's own counts, sampled |
| AWS/DynamoDB | the functions' calls, on the wire |
| AWS/ElastiCache | INFO of the embedded server, sampled |
| AWS/Events | the rules that matched, and what they called |

Counts are stamped when the thing ended: AWS stamps an invocation with its beginning, which with a
minute of two seconds would often be several periods ago.
"""
