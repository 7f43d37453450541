"""A cluster on the simulated AWS that each test leaves as it was."""

from collections.abc import Iterator

import pytest

from tests.simulators.aws_account import Account, account


@pytest.fixture(scope="module")
def ml() -> Iterator[Account]:
    """A cluster, which each test leaves as it was."""
    with account() as made:
        made.cluster()
        yield made


@pytest.fixture
def emptied(ml: Account) -> Iterator[None]:
    """No node group outlives its test."""
    yield
    for name in ml.eks.list_nodegroups(clusterName="ml")["nodegroups"]:
        ml.eks.delete_nodegroup(clusterName="ml", nodegroupName=name)
