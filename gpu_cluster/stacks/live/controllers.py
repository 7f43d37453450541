"""Whether a controller that a stack would install is already installed."""

from collections.abc import Mapping
from typing import Any

import kubernetes.client

from gpu_cluster.components.batch.batch_args import BatchArgs
from gpu_cluster.components.catalog.kubernetes import BATCH_DEFINITIONS
from gpu_cluster.components.lifecycle.ownership import owner_of
from gpu_cluster.stacks.live.cluster import asked, client_of, listed_items

_WORDS = {
    "kueue": ("batch.queues", "Kueue", "name its queues in the label kueue.x-k8s.io/queue-name"),
    "jobset": ("batch.jobSet", "JobSet", "create JobSets of your own instead of trainingJobs"),
}
"""Controller -> the setting that installs it, its name, and what to do without the setting."""


def foreign_controllers(kubeconfig: str, batch: BatchArgs, owner: str) -> dict[str, str]:
    """Setting -> why `pulumi up` would fail at it. `owner`: the stack, `<project>/<stack>`.

    Raises CheckError if the cluster does not answer.
    """
    enabled = {"kueue": bool(batch.queues), "jobset": batch.job_set}
    api = kubernetes.client.ApiextensionsV1Api(client_of(kubeconfig))
    definitions = {
        item["metadata"]["name"]: item
        for item in listed_items(asked(api.list_custom_resource_definition))
    }
    result = {}
    for name, definition in BATCH_DEFINITIONS.items():
        names = definitions.get(definition)
        if enabled[name] and names is not None and owner_of(names) != owner:
            setting, title, instead = _WORDS[name]
            result[setting] = (
                f"the cluster already has {title}, installed by {_who(names)}, so pulumi up would "
                f"fail to create {definition}; remove {setting}, and {instead}"
            )
    return result


def _who(definition: Mapping[str, Any]) -> str:
    """Who installed it, according to its labels, or else the last writer."""
    if stack := owner_of(definition):
        return f"stack {stack}"
    labels = definition["metadata"].get("labels") or {}
    managers = definition["metadata"].get("managedFields") or [{}]
    return str(labels.get("app.kubernetes.io/managed-by") or managers[0].get("manager", "others"))
