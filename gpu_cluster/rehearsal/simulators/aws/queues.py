"""moto's SQS with long polls that do not block, and IAM's paths of instance profiles."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, rule, waits

_LOOK_SECONDS = 0.5


def install(account: Account) -> Callable[[], None]:
    """Makes moto's queues respond at once, until the returned function is called."""
    from moto.sqs.models import SQSBackend

    original = SQSBackend.receive_message

    def receive_message(
        backend: Any, name: str, count: int, wait_seconds: int, *rest: Any, **more: Any
    ) -> Any:
        return original(backend, name, count, 0, *rest, **more)

    setattr(SQSBackend, "receive_message", receive_message)  # noqa: B010

    def restore() -> None:
        setattr(SQSBackend, "receive_message", original)  # noqa: B010

    return restore


@waits("sqs", "ReceiveMessage")
def wait_for_message(account: Account, params: Params) -> None:
    """Waits for the requested time, unless a message arrives."""
    name = params["QueueUrl"].rpartition("/")[2]
    due = time.monotonic() + (params.get("WaitTimeSeconds") or 0)
    while time.monotonic() < due:
        queue = account.backend("sqs").queues.get(name) if account.region else None
        if queue is None or any(message.visible for message in queue._messages):
            return
        time.sleep(_LOOK_SECONDS)


@rule("sqs", "SetQueueAttributes")
def set_queue_attributes(account: Account, params: Params) -> Iterator[None]:
    """Keeps the queue's policy, which moto removes, if the request does not name it."""
    queue = account.backend("sqs").queues.get(params["QueueUrl"].rpartition("/")[2])
    before = queue.policy if queue else None
    yield
    if queue and "Policy" not in (params.get("Attributes") or {}):
        queue.policy = before


@operation("iam", "ListInstanceProfiles")
def list_instance_profiles(account: Account, params: Params) -> dict[str, Any]:
    """Lists the profiles below the requested path; Karpenter deletes those below its own."""
    found = account.client("iam").list_instance_profiles()["InstanceProfiles"]
    below = [row for row in found if row["Path"].startswith(params.get("PathPrefix") or "/")]
    for row in below:
        for role in row["Roles"]:
            role.pop("AssumeRolePolicyDocument", None)  # The client has parsed it.
    return {"InstanceProfiles": below, "IsTruncated": False}
