"""Each input that Google's provider updates in place is updated, refreshed and compared."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpu_cluster.clouds.rows.google import rows
from gpu_cluster.rehearsal.plugins.cloud.schema import resource_schema
from tests.simulators.round_trips import Skip, changes, complaints
from tests.unit.plugins.google_requests import STEPS
from tests.unit.simulators.google_stack import (
    CLUSTER,
    FIREWALL,
    NAT,
    NETWORK,
    POOL,
    SUBNETWORK,
    GoogleStack,
)

_ASK = Skip("Google or its provider decides by other inputs, which the recorded requests change")
_OWN = Skip("only the provider reads it")
_NONE = Skip("a rehearsal does not simulate it: it is refused, or not sent")
_OLD = Skip("deprecated for another input, and not sent")
VALUES: Mapping[str, Mapping[str, Any]] = {
    NETWORK: {"bgpBestPathSelectionMode": _NONE},
    SUBNETWORK: {
        "ipCidrRange": Skip("it only grows, which the recorded requests do"),
        "ipCollection": Skip("a delegated prefix, of which a simulated project has none"),
        "privateIpv6GoogleAccess": _NONE,
        "purpose": _NONE,
        "stackType": _NONE,
    },
    NAT: {
        "enableDynamicPortAllocation": _ASK,
        "enableEndpointIndependentMapping": _ASK,
        "maxPortsPerVm": 4096,
        "minPortsPerVm": 128,
        "natIpAllocateOption": _ASK,
    },
    FIREWALL: {"network": _ASK},
    "gcp:projects/service:Service": dict.fromkeys(
        ("checkIfServiceHasUsageOnDestroy", "disableDependentServices", "disableOnDestroy"), _OWN
    ),
    "gcp:monitoring/dashboard:Dashboard": {"dashboardJson": '{"displayName":"B"}'},
    CLUSTER: {
        "allowNetAdmin": _NONE,
        "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint": Skip("only GKE decides it"),
        "desiredEmulatedVersion": _NONE,
        "inTransitEncryptionConfig": "IN_TRANSIT_ENCRYPTION_INTER_NODE_TRANSPARENT",
        "loggingService": _OLD,
        "minMasterVersion": _ASK,
        "monitoringService": _OLD,
        "nodeVersion": _ASK,
        "privateClusterConfig.enablePrivateEndpoint": _ASK,
        "privateIpv6GoogleAccess": _NONE,
        "removeDefaultNodePool": _OWN,
        "workloadIdentityConfig.workloadPool": Skip("a project has one"),
    },
    POOL: {
        "autoscaling.maxNodeCount": _ASK,
        "autoscaling.minNodeCount": _ASK,
        "upgradeSettings.maxUnavailable": _ASK,
        "version": _ASK,
    },
}
"""Type -> path -> a value, or why there is none."""
FIRST = {(token, name): dict(inputs) for token, name, inputs in reversed(STEPS)}
# GKE refuses an update without it once it is set (terraform-google-kubernetes-engine 2370).
FIRST[CLUSTER, "dev"] |= {"inTransitEncryptionConfig": "IN_TRANSIT_ENCRYPTION_DISABLED"}
# Several networks of a pod need it, and it cannot be changed later.
FIRST[CLUSTER, "dev"] |= {"datapathProvider": "ADVANCED_DATAPATH"}


@pytest.fixture(scope="module")
def stack() -> GoogleStack:
    """A stack with the first state of each resource of the recorded requests."""
    made = GoogleStack()
    for token, name in dict.fromkeys((token, name) for token, name, _ in STEPS):
        made.up(token, name, FIRST[token, name])
    return made


@pytest.mark.prove(reason="each input of each type; the recorded requests change the usual ones")
@pytest.mark.xdist_group("round trips on Google Cloud")
@pytest.mark.parametrize("token", sorted({token for token, _, _ in STEPS} & rows().keys()))
def test_whatever_an_update_changes_is_read_back(stack: GoogleStack, token: str) -> None:
    """Create, update, no difference, refresh, no difference: for each input that the provider
    updates in place, with a value of its type."""
    name = next(name for kind, name, _ in STEPS if kind == token)
    inputs, values, wrong = FIRST[token, name], VALUES.get(token, {}), []
    for path, changed in changes(token, inputs, resource_schema(token).inputs.properties, values):
        wrong += [f"{path}: {line}" for line in complaints(stack, token, name, changed)]
        stack.up(token, name, inputs)
    assert wrong == []
