"""A cluster on the simulated AWS."""

from collections.abc import Iterator

import pytest

from tests.simulators.aws_account import Account, account


@pytest.fixture(scope="module")
def ml() -> Iterator[Account]:
    """A cluster for the tests of a module."""
    with account() as made:
        made.cluster()
        yield made


@pytest.fixture
def emptied(ml: Account) -> Iterator[None]:
    """No fault, node group or addon outlives its test."""
    yield
    ml.faults.quota.clear()
    ml.faults.no_capacity.clear()
    for name in ml.eks.list_nodegroups(clusterName="ml")["nodegroups"]:
        ml.eks.delete_nodegroup(clusterName="ml", nodegroupName=name)
    for name in ml.eks.list_addons(clusterName="ml")["addons"]:
        ml.eks.delete_addon(clusterName="ml", addonName=name)
