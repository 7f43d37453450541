"""The Auto Scaling group tags that describe a node to Cluster Autoscaler while there is none.

cluster-autoscaler/cloudprovider/aws/README.md (read 2026-11-21). The AWS simulator has the same
strings a second time, because it verifies them; an import contract keeps it from this module.
"""

from typing import Final

TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"


def label_tag(key: str) -> str:
    """Key of the tag that announces a node label; the tag's value is the label's value."""
    return f"{TEMPLATE}/label/{key}"


def taint_tag(key: str) -> str:
    """Key of the tag that announces a taint; the tag's value is `<value>:<NoSchedule|...>`.

    A value without the colon, or with `NO_SCHEDULE`, is silently dropped.
    """
    return f"{TEMPLATE}/taint/{key}"


def resource_tag(resource: str) -> str:
    """Key of the tag that announces an extended resource; its value is the quantity per node."""
    return f"{TEMPLATE}/resources/{resource}"
