"""The Auto Scaling group tags by which Cluster Autoscaler knows the nodes of a group at zero.

cluster-autoscaler/cloudprovider/aws/README.md (read 2026-11-21). The simulator of AWS writes the
same strings again, since it judges them; an import contract keeps it from this module.
"""

from typing import Final

TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"


def label_tag(key: str) -> str:
    """Tag key that announces a node label; the tag's value is the label's."""
    return f"{TEMPLATE}/label/{key}"


def taint_tag(key: str) -> str:
    """Tag key that announces a taint; the tag's value is `<value>:<NoSchedule|...>`.

    A value without the colon, or with `NO_SCHEDULE`, is dropped in silence.
    """
    return f"{TEMPLATE}/taint/{key}"


def resource_tag(resource: str) -> str:
    """Tag key that announces an extended resource; the tag's value is its quantity per node."""
    return f"{TEMPLATE}/resources/{resource}"
