"""Every setting changes what is declared: a line that uses a key cannot be lost unnoticed."""

from collections.abc import Mapping
from functools import cache

import pytest

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.effect import Silent
from gpu_cluster.components.settings.blocks import BLOCKS, RUNNING
from quality.faults import changes
from quality.keys import Setting
from tests.program.effects import (
    STACK_OF,
    effects,
    inputs,
    leaves,
    read,
    sent,
    starts,
    without_effect,
)  # fmt: skip

ONE_CODE = pytest.mark.prove(
    reason="what reads it is the same on every platform, and for all blocks that run pods: "
    "`existing` has it in each run, for `workloads`, and test_declared what each makes of it; "
    "so it is with what declares nothing here nor there"
)
LISTED = pytest.mark.prove(
    reason="test_declared lists in each run what the key's change in tries.yaml changes; another "
    "value of it, and the inputs that its field names, can wait"
)


@cache
def reasons(platform: str) -> Mapping[str, str]:
    """Key, or `key=choice` -> why it declares nothing by itself, by its field or the file."""
    silent = {
        setting.key: marker.reason
        for setting in leaves(platform).values()
        for marker in setting.inherited(Silent)
    }
    return {**silent, **changes.silent(platform, STACK_OF[platform])}


def shared(setting: Setting) -> list[str]:
    """The platforms on which this field is a setting."""
    return [
        platform
        for platform in STACK_OF
        if (other := leaves(platform).get(setting.key)) and sent(other) == sent(setting)
    ]


def marks(platform: str, key: str) -> list[pytest.MarkDecorator]:
    """What one platform declares is known to its own tests: others need not wait for it. The pools
    on an existing cluster are those of its platform."""
    rooms = ("cluster.",) if PLATFORMS[platform].added else ("cluster.", "gpuPools.")
    own = key.startswith(rooms) or platform == "existing"
    silent = {row.partition("=")[0] for row in reasons("existing")}
    block, _, inner = key.partition(".")
    of_pods = leaves(platform).get(f"workloads.{inner}") if block in RUNNING else None
    repeated = block != "workloads" and of_pods and sent(of_pods) == sent(leaves(platform)[key])
    if (repeated or not own) and (key not in silent or key in reasons(platform)):
        return [ONE_CODE]
    return [LISTED] if key in listed(platform) else []


@cache
def listed(platform: str) -> set[str]:
    """The keys of which test_declared lists a change: its listings have no batch, on clouds only
    the cluster and its pools, and nothing of clusters that exist on them."""
    blocks = {"cluster", "gpuPools"} if not PLATFORMS[platform].added else set()
    blocks |= {*BLOCKS} - {"batch"} if platform == "existing" else set()
    if not blocks:
        return set()
    # The changes of pods take seconds to find, in each worker that only collects these tests.
    followed, own = changes.without_pods(platform, STACK_OF[platform])
    every = changes.table(platform, STACK_OF[platform]).changes if blocks & {*BLOCKS} else ()
    return {
        change.key
        for change in every or [*followed, *own]
        if {key.partition(".")[0] for key in change.whole} <= blocks
        and change.key != "cluster.name"
    }


SETTINGS = [
    pytest.param(platform, setting, id=f"{platform}-{key}", marks=marks(platform, key))
    for platform in STACK_OF
    for key, setting in leaves(platform).items()
]


@pytest.mark.parametrize(("platform", "setting"), SETTINGS)
def test_a_setting_has_an_effect_or_a_reason(platform: str, setting: Setting) -> None:
    """Two accepted configs that differ only in it declare different resources or options, in the
    inputs that the field names with `Sent`.

    So does each choice, where the type names them. A reason that no longer applies fails as well.
    """
    key = setting.key
    several = [platform] != shared(setting)
    seen, unseen, silent = effects(platform, setting, any_input=several)
    expected = reasons(platform)
    choices = {row.partition("=")[2] for row in expected if row.startswith(f"{key}=")}
    if key in expected:
        assert not seen, f"{key} has an effect: drop its reason"
        return
    assert seen, (
        f"{key} changes nothing: use it, list a value in quality/tries.yaml, or say why with Silent"
    )
    shown = len(unseen) < len(sent(setting)) or not sent(setting)
    assert shown if several else not unseen, (
        f"{key} does not show in {', '.join(unseen)}, but in {', '.join(sorted(seen)[:12])}: "
        "correct Sent of its field, or where it is used"
    )
    assert set(silent) == choices


OTHER_SCALERS = [
    (platform, name)
    for name, row in SCALERS.items()
    for platform in row.platforms
    if row.setting not in ("", "gke", "node-pools", "cluster-autoscaler")
]
"""Those that `effects` does not see, because the samples have the platform's default."""
WITHOUT_EFFECT = {
    ("eks", "karpenter"): ["gpuPools.nodeRepair.enabled"],  # false is what Karpenter does anyway
}


@pytest.mark.parametrize(
    ("block", "platform", "name"),
    [
        # Pools on an existing cluster are those of the platform's own.
        *(("gpuPools", *case) for case in OTHER_SCALERS if not PLATFORMS[case[0]].added),
        *(
            pytest.param("cluster", *case, marks=pytest.mark.prove(reason="half a minute"))
            for case in OTHER_SCALERS
        ),
    ],
)
def test_a_setting_has_an_effect_under_every_scaler_that_takes_it(
    block: str, platform: str, name: str
) -> None:
    """Or the settings refuse it: `NotWith` on its field says which scaler does not support it."""
    expected = WITHOUT_EFFECT.get((platform, name), [])
    assert without_effect(platform, name, block) == [
        key for key in expected if key.startswith(block)
    ]


SEVERAL = {
    setting.key: setting
    for platform in STACK_OF
    for setting in leaves(platform).values()
    if len(sent(setting)) > 1 and len(shared(setting)) > 1
}


@pytest.mark.prove(reason="each platform's own test sees one of the inputs in each run")
@pytest.mark.parametrize("key", SEVERAL)
def test_a_setting_of_several_platforms_shows_in_all_its_inputs(key: str) -> None:
    """On one of them at least."""
    unseen = set(sent(SEVERAL[key]))
    for platform in shared(SEVERAL[key]):
        unseen &= {*effects(platform, SEVERAL[key])[1]} if unseen else set()
    assert not unseen, (
        f"{key} does not show there, on {', '.join(shared(SEVERAL[key]))}: drop these from Sent of "
        "its field, or give a start with which it shows, such as another scaler, in "
        "quality/tries.yaml"
    )


@pytest.mark.parametrize("platform", STACK_OF)
def test_every_field_says_where_it_shows_or_why_nowhere(platform: str) -> None:
    """With `Sent` or `Silent`, or `quality/tries.yaml` has the reason for the platform."""
    told = reasons(platform)
    assert [
        key for key, setting in leaves(platform).items() if not sent(setting) and key not in told
    ] == []


@pytest.mark.parametrize("platform", STACK_OF)
def test_every_reason_is_of_a_setting(platform: str) -> None:
    """And says something."""
    known = leaves(platform)
    assert [row for row in reasons(platform) if row.partition("=")[0] not in known] == []
    assert all(reasons(platform).values())


@pytest.mark.parametrize("platform", STACK_OF)
def test_every_start_is_accepted(platform: str) -> None:
    """A config that the settings refuse would compare nothing."""
    assert [start for start in starts(platform) if read(start) is None] == []


@pytest.mark.parametrize("platform", STACK_OF)
def test_the_same_config_declares_the_same(platform: str) -> None:
    """Otherwise any two would differ."""
    sample = starts(platform)[0]
    assert inputs(sample) == inputs(sample, again=True)
