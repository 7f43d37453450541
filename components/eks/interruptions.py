"""The queue, with its rules, that tells Karpenter in advance when EC2 reclaims an instance.

From the CloudFormation template of aws/karpenter-provider-aws 1.14 (read 2026-11-24);
1.15.0 handles the same messages (pkg/controllers/interruption/messages).
"""

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from ..lifecycle import ownership
from .iam import document

_EVENTS = {
    "health": ("aws.health", "AWS Health Event"),
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
_RETENTION_SECONDS = 300
"""Older messages are useless: Spot gives two minutes' notice."""


class EksInterruptions(pulumi.ComponentResource):
    """A queue of the region's EC2 events, which only the stack's own rules can write to."""

    queue: aws.sqs.Queue
    ready: list[pulumi.Resource]
    """Resources that must exist before an instance starts, or its interruption goes unnoticed."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        """`name`: at most 44 characters; with event and automatic suffix, a rule's has 64."""
        super().__init__("gpu-cluster:eks:Interruptions", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.queue = aws.sqs.Queue(
            name,
            message_retention_seconds=_RETENTION_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=ownership.aws_tags(),
            opts=child,
        )
        rules = {
            event: aws.cloudwatch.EventRule(
                f"{name}-{event}",
                event_pattern=json.dumps({"source": [source], "detail-type": [kind]}),
                tags=ownership.aws_tags(),
                opts=child,
            )
            for event, (source, kind) in _EVENTS.items()
        }
        arns = pulumi.Output.all(*(rule.arn for rule in rules.values()))
        policy = pulumi.Output.all(self.queue.arn, arns).apply(lambda found: _written_by(*found))
        self.ready = [
            aws.sqs.QueuePolicy(name, queue_url=self.queue.url, policy=policy, opts=child),
            *(
                aws.cloudwatch.EventTarget(
                    f"{name}-{event}",
                    rule=rule.name,
                    target_id="KarpenterInterruptionQueueTarget",
                    arn=self.queue.arn,
                    opts=child,
                )
                for event, rule in rules.items()
            ),
        ]
        self.register_outputs({})


def _written_by(queue: str, rules: Sequence[str]) -> str:
    """The queue policy: only these rules may send messages, and only with TLS.

    EventBridge sends for rules of every account: without the condition, anybody's rule could make
    Karpenter drain a node whose instance ID it knows.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sqs-permissions
    """
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnEquals": {"aws:SourceArn": list(rules)}},
        },
        {
            "Sid": "DenyHTTP",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": queue,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )
