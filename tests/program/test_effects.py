"""Every setting changes what is declared: a line that uses a key cannot be lost unnoticed."""

from typing import Any

import pytest

from tests.program.effects import ROWS, STACK_OF, declared, effects, leaves, read, starts

ONE_CODE = pytest.mark.prove(
    reason="what reads it is the same on every platform: `existing` has it in each run, and "
    "test_declared what each platform makes of it"
)


def reasons(platform: str) -> dict[str, str]:
    """Key, or `key=choice` -> why it declares nothing by itself."""
    return {**ROWS["none"]["everywhere"], **ROWS["none"][platform]}


def marks(platform: str, key: str) -> list[pytest.MarkDecorator]:
    """What one platform declares is known to its own tests: others need not wait for it."""
    own = key.startswith(("cluster.", "gpuPools.")) or platform == "existing"
    silent = {row.partition("=")[0] for row in ROWS["none"]["existing"]}
    return [] if own or key in silent else [ONE_CODE]


SETTINGS = [
    pytest.param(platform, key, hint, id=f"{platform}-{key}", marks=marks(platform, key))
    for platform in STACK_OF
    for key, hint in leaves(platform).items()
]


@pytest.mark.parametrize(("platform", "key", "hint"), SETTINGS)
def test_a_setting_has_an_effect_or_a_reason(platform: str, key: str, hint: Any) -> None:
    """Two accepted configs that differ in it alone declare different resources or options.

    So does each choice, where the type names them. A reason that no longer applies fails as well.
    """
    seen, silent = effects(platform, key, hint)
    expected = reasons(platform)
    choices = {row.partition("=")[2] for row in expected if row.startswith(f"{key}=")}
    if key in expected:
        assert not seen, f"{key} has an effect: drop its row in effects.yaml"
    else:
        assert seen, f"{key} changes nothing: use it, or say why in effects.yaml"
        assert set(silent) == choices


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
    assert declared(sample) == declared(sample, again=True)
