"""A setting that is taken away has an effect, or the program says that the cloud keeps it.

Where an input is optional and computed, its provider does nothing once the program no longer gives
it, and the preview says nothing.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gpu_cluster.components.lifecycle.replacement import valued
from gpu_cluster.components.platforms import PLATFORMS, WRITTEN
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.on_change import Kept, change_rules
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.stacks.definition.files import EXAMPLES
from quality.faults.changes import MADE, changed, table
from tests.program.effects import STACK_OF, read
from tests.program.environments import recorded

WITHOUT_EFFECT = (
    "gpuPools.upgrade.",
    "gpuPools.serviceAccount",
    "cluster.scaler",
    "gpuPools.fallback",
    "gpuPools.migrateBack",
    "gpuPools.consolidationDelayMinutes",
    "gpuPools.anyReservation",
    "gpuPools.localSsdCount",
    "gpuPools.secondaryBootDisk",
)
"""Settings that do not stay: without a strategy the provider sends `SURGE`, and the cluster's own
account, whose email a recording does not have, takes the place of another. Without compute classes
node auto-provisioning is off, and its limits, which stay, have no effect. What stays beside a disk
of images is `imageStreaming`, which says so itself."""


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


def told(config: dict[str, Any], base: dict[str, Any]) -> set[str]:
    """Keys of which the program says that the cloud keeps the first config's value."""
    before, after = read(config), read(base)
    assert before is not None
    assert after is not None
    pairs = [("cluster", before.cluster, after.cluster)]
    pairs += [
        ("gpuPools", before.pools[name].args, pool.args)
        for name, pool in after.pools.items()
        if name in before.pools
    ]
    return {
        f"{block}.{camel(path)}"
        for block, old, new in pairs
        for path, rule in change_rules(type(old)).items()
        if type(old) is type(new) and callable(rule) and valued(old, path) != valued(new, path)
        if isinstance(rule(valued(old, path), valued(new, path)), Kept)
    }


def stays(config: dict[str, Any], base: dict[str, Any]) -> bool:
    """Whether something of the first config stays in the cloud once the second one applies."""
    without = inputs(base)
    return any(
        facts.of(token).kept_when_removed & set(lost(given, without.get((token, name), given)))
        for (token, name), given in inputs(config).items()
    )


@pytest.mark.parametrize("platform", [name for name in WRITTEN if PLATFORMS[name].cloud])
def test_the_program_says_what_stays_once_it_is_taken_away(platform: str) -> None:
    """By the rule of its field (`kept`), with what to do instead. Everything else is declared with
    a value that says so, or is not kept."""
    text = (EXAMPLES / f"Pulumi.{STACK_OF[platform]}.yaml").read_text()
    base = yaml.safe_load(text)["config"]
    silent, needless = [], []
    for change in table(platform, STACK_OF[platform]).changes:
        config = yaml.safe_load(changed(text, change.whole))["config"]
        if change.key.partition(".")[0] not in MADE or read(config) is None:
            continue
        if change.key.startswith(WITHOUT_EFFECT):
            continue
        says = any(f"{change.key}.".startswith(f"{key}.") for key in told(config, base))
        kept = stays(config, base)
        if kept and not says:
            silent.append(change.key)
        if says and not kept:
            needless.append(change.key)
    assert silent == [], "give these fields OnChange(kept(WHAT TO DO))"
    assert needless == [], "the cloud does not keep these"
