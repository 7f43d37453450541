"""Tests marked `prove` take minutes together: they run with `-m prove` or `PROVE=1`."""

import os

import hypothesis
import pytest

# How long one example takes says more of the machine's load than of the code.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips them in any other run."""
    if os.environ.get("PROVE") or "prove" in config.getoption("markexpr"):
        return
    skipped = pytest.mark.skip(reason="slow; run make prove, or set PROVE=1")
    for item in items:
        if item.get_closest_marker("prove"):
            item.add_marker(skipped)
