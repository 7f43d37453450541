"""What `python -m quality explain` says of an input before a setting sends it."""

import pytest

from gpu_cluster.stacks.outcome import CheckError
from quality.explain import explain

LOGGING = """\
type                    string
allowed                 DEFAULT, MAX_THROUGHPUT
left out                the API decides
removed                 the cloud keeps the value: declare it always, or OnChange(kept(...))
changed                 in place, for the provider
plugin                  sends it as loggingConfig.variantConfig.variant
simulator               names it in container/node_defaults.py
recorded                a step of tests/unit/plugins/google_requests.py has loggingVariant
settings                none sends it
scaler node-pools       has it
scaler compute-classes  NotWith("compute-classes", "WHY")

    logging_variant: Annotated[
        Literal["default", "max-throughput"] | None,
        Sent("NodePool nodeConfig.loggingVariant"),
        OnChange(kept("WHAT TO DO INSTEAD")),
    ] = None
    \"\"\"WHAT IT IS, WITH ITS UNIT; WHAT APPLIES BY DEFAULT.\"\"\""""


def test_an_input_without_a_setting_is_explained() -> None:
    """With the field to paste, which says that the cloud keeps a value that is removed."""
    assert explain("gke", "NodePool", "nodeConfig.loggingVariant") == LOGGING


@pytest.mark.parametrize(
    ("platform", "kind", "path", "lines"),
    [
        ("gke", "NodePool", "nodeConfig.diskType", {
            "changed": "in place, for the provider",
            "settings": "gpuPools.diskType",
            "scaler compute-classes": "has ComputeClass bootDiskType: send it there too; "
            "Sent names it if quality/tries.yaml has a start with compute-classes"}),
        ("gke", "NodePool", "nodeConfig.gcfsConfig.enabled", {
            "type": "boolean",
            "removed": "the provider resets it, but the cloud keeps nodeConfig.gcfsConfig if"
            " nothing is left in it"}),
        ("eks", "NodeGroup", "diskSize", {
            "type": "integer",
            "changed": "replaces the NodeGroup: OnChange"}),
        ("eks", "Vpc", "ipv6CidrBlock", {
            "plugin": "refuses it: take it out of `unsimulated` in "
                      "gpu_cluster/clouds/rows/aws.yaml"}),
        ("eks", "LaunchTemplate", "ebsOptimized", {
            "scaler cluster-autoscaler": "has it",
            "scaler auto-mode": 'NotWith("auto-mode", "WHY")'}),
        ("eks", "EC2NodeClass", "spec.detailedMonitoring", {
            "type": "boolean", "scaler karpenter": "has it"}),
    ],
)  # fmt: skip
def test_what_the_sources_say_is_shown(
    platform: str, kind: str, path: str, lines: dict[str, str]
) -> None:
    """Of the provider, the plugin's row, a setting that sends it, and a scaler's definition."""
    topics = dict(
        line.split("  ", 1) for line in explain(platform, kind, path).splitlines() if line
    )
    assert {topic: topics[topic].strip() for topic in lines} == lines


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("NodePol", "name", "gke has no type NodePol: did you mean 'NodePool'"),
        (
            "NodePool",
            "nodeConfg.diskType",
            "NodePool has no input nodeConfg.diskType: did you mean",
        ),
        (
            "ComputeClass",
            "spec.prioritys",
            "ComputeClass has no field spec.prioritys: did you mean",
        ),
    ],
)
def test_what_does_not_exist_is_refused(kind: str, path: str, message: str) -> None:
    """With the name that is nearest."""
    with pytest.raises(CheckError, match=message):
        explain("gke", kind, path)
