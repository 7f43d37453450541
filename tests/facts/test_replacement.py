"""What the program says a change replaces, and what the provider says of the inputs in which the
setting shows: both state it, and no engine has to run to see that they differ."""

from collections.abc import Iterator, Mapping

import pytest

from gpu_cluster.components.catalog.clouds import CLOUDS, Cloud
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.effect import Sent
from gpu_cluster.components.schema.on_change import OnChange
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.patterns import within
from quality.keys import Setting, settings_of

CLOUD_OF = {name: CLOUDS[row.cloud] for name, row in PLATFORMS.items() if row.cloud}
_GKE = {
    "gpuPools.secureBoot": "osImage, driver and installerImage decide it too: the rule is that of "
    "`effective_secure_boot`",
    "gpuPools.maxRunDurationSeconds": "queued decides it too: the rule is that of "
    "`pool_run_duration_seconds`",
    "gpuPools.localSsdCount": "machineType decides it too: the rule is that of `pool_ssd_count`",
}
DIFFERENT: Mapping[str, Mapping[str, str]] = {
    "gke": {
        **_GKE,
        "cluster.scaler": "the node pools are not declared any more, or compute classes are not",
    },
    "gke-existing": _GKE,
    "gke-autopilot": dict.fromkeys(
        [f"gpuPools.sharing.{key}" for key in ("strategy", "replicas", "partition")],
        "the field is GKE Standard's too, and Autopilot has no node pools",
    ),
    "eks": {},
    "eks-existing": {"cluster.scaler": "the node groups are not declared any more"},
}
"""Platform -> setting -> why the two differ, and both are right."""


def sent(cloud: Cloud, setting: Setting) -> Iterator[tuple[str, str]]:
    """Each type of the cloud in which the setting shows, and the path of the input there."""
    for marker in setting.inherited(Sent):
        for place in marker.inputs:
            name, _, path = place.partition(" ")
            for token in facts.types():
                if token.startswith(f"{cloud.package}:") and token.endswith(f":{name}"):
                    yield token, path


def replaced(token: str, path: str) -> bool:
    """Whether the provider replaces the resource for a change of the input, or of one beneath."""
    known = facts.of(token)
    return known.replaces(path) or any(within(entry, path) for entry in known.immutable)


def differences(platform: str) -> Mapping[str, str]:
    """Setting -> how the program and the provider differ about it."""
    found, cloud = {}, CLOUD_OF[platform]
    for setting in settings_of(platform):
        inputs = [*sent(cloud, setting)]
        rules = [marker.rule for marker in setting.inherited(OnChange)]
        # A refusal, or a rule that judges by the values, says nothing of the input as such.
        if not setting.leaf or not inputs or not all(isinstance(rule, str) for rule in rules):
            continue
        lost = [token for token, path in inputs if replaced(token, path)]
        if rules and not lost:
            found[setting.key] = f"the program says {rules[0]}, the provider replaces nothing"
        # Other resources are replaced without a loss.
        elif not rules and {cloud.cluster, cloud.node_pool} & {*lost}:
            found[setting.key] = f"the provider replaces {lost[0]}, the program says nothing"
    return found


@pytest.mark.parametrize("platform", CLOUD_OF)
def test_the_program_and_the_provider_agree_on_what_is_replaced(platform: str) -> None:
    """Or there is a reason; one that no longer applies fails as well."""
    found = differences(platform)
    assert {key: how for key, how in found.items() if key not in DIFFERENT[platform]} == {}
    assert [key for key in DIFFERENT[platform] if key not in found] == []
