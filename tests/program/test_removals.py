"""A setting that is taken away has an effect, or the program says that the cloud keeps it.

Where an input is optional and computed, its provider does nothing once the program no longer gives
it, and the preview says nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from components.eks.cluster_args import EksClusterArgs
from components.eks.pool_args import EksGpuNodeGroupArgs
from components.gke.cluster_args import GkeClusterArgs
from components.gke.pool_args import GkeGpuNodePoolArgs
from components.on_change import ChangeRules, Kept, change_rules
from quality.faults.changes import MADE, changed, table
from rehearsal.plugins.cloud import facts
from stacks.definition.files import EXAMPLES
from tests.program.effects import STACK_OF, read
from tests.program.environments import recorded

STAYS: Mapping[str, Mapping[str, tuple[ChangeRules, str, str, str]]] = {
    "gke": {"cluster.zones": (change_rules(GkeClusterArgs), "zones", '["us-central1-a"]', "[]"),
        "gpuPools.imageStreaming": (change_rules(GkeGpuNodePoolArgs), "image_streaming", "true",
            "null"),
        "gpuPools.kubelet": (change_rules(GkeGpuNodePoolArgs), "kubelet", "{}", "null"),
        "gpuPools.linux": (change_rules(GkeGpuNodePoolArgs), "linux", "{}", "null")},
    "gke-autopilot": {},
    "eks": {
        "cluster.addonVersions": (
            change_rules(EksClusterArgs),
            "addon_versions",
            '{"coredns": "v1"}',
            "{}",
        ),
        "gpuPools.releaseVersion": (
            change_rules(EksGpuNodeGroupArgs),
            "release_version",
            "1.35.6-20260714",
            "null",
        ),
    },
}  # fmt: skip
"""Platform -> its settings that the cloud keeps, with the rule that says so and an example."""
WITHOUT_EFFECT = (
    "gpuPools.upgrade.",
    "gpuPools.serviceAccount",
    "cluster.scaler",
    "gpuPools.fallback",
    "gpuPools.migrateBack",
    "gpuPools.consolidationDelayMinutes",
)
"""Settings that do not stay: without a strategy the provider sends `SURGE`, and the cluster's own
account, whose email a recording does not have, takes the place of another. Without compute classes
node auto-provisioning is off, and its limits, which stay, have no effect."""


def lost(before: Any, after: Any, pattern: str = "") -> Iterator[str]:
    """Inputs that are there before and not after; the outermost."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return
    for name, value in before.items():
        inner = f"{pattern}.{name}" if pattern else name
        if value is not None and after.get(name) is None:
            yield inner
        else:
            yield from lost(value, after[name] if value is not None else None, inner)


def inputs(config: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each.type, each.name): each.inputs for each in recorded(config).resources}


def kept(platform: str) -> set[str]:
    """Keys of which something stays in the cloud once they are taken away from a stack."""
    text = (EXAMPLES / f"Pulumi.{STACK_OF[platform]}.yaml").read_text()
    base = yaml.safe_load(text)["config"]
    without, found = inputs(base), set()
    for change in table(platform, STACK_OF[platform]).changes:
        config = yaml.safe_load(changed(text, change.whole))["config"]
        if change.key.partition(".")[0] not in MADE or read(config) is None:
            continue
        for (token, name), given in inputs(config).items():
            known = facts.of(token)
            if known.kept_when_removed & set(lost(given, without.get((token, name), given))):
                if change.key.startswith(WITHOUT_EFFECT):
                    continue
                blocks = (key for key in STAYS[platform] if change.key.startswith(f"{key}."))
                found.add(next(blocks, change.key))
    return found


@pytest.mark.parametrize("platform", STAYS)
def test_what_stays_once_it_is_taken_away_is_known(platform: str) -> None:
    """Everything else is declared with a value that says so, or is not kept."""
    assert kept(platform) == set(STAYS[platform])


@pytest.mark.parametrize("row", [row for rows in STAYS.values() for row in rows.values()])
def test_the_program_says_what_stays(row: tuple[ChangeRules, str, str, str]) -> None:
    """In the preview, with what to do instead."""
    rules, path, old, new = row
    rule = rules[path]
    assert callable(rule)
    assert isinstance(rule(old, new), Kept)
