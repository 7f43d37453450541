"""The program runs here as on a machine whose kubeconfig reaches nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kubeconfig() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(Path(__file__).parent / "kubeconfig.yaml"))
        yield
