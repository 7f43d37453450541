"""One thing wrong at a time in what dev asks of Google Cloud: each fails a rehearsal, in words."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, Sandboxes, as_it_was, changed, configured, said

CLUSTER = "gcp:container/cluster:Cluster"
NAT = "gcp:compute/routerNat:RouterNat"
WEEKEND = {
    "start": "2026-01-03T02:00:00Z",
    "end": "2026-01-03T10:00:00Z",
    "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
}


def cluster(**settings: Any) -> Mutation:
    """Other settings of the cluster, in the stack's file."""
    return configured(lambda config: config["gpu-cluster:cluster"].update(settings))


MUTATIONS: dict[str, tuple[list[Mutation], str]] = {
    "the cluster's credential plugin takes gcloud's account": (
        [
            changed(
                "pulumi:providers:kubernetes",
                """
                import json

                def _without_arguments(kubeconfig):
                    document = json.loads(kubeconfig)
                    del document["users"][0]["user"]["exec"]["args"]
                    return json.dumps(document)

                kubeconfig = pulumi.Output.from_input(props["kubeconfig"])
                props["kubeconfig"] = kubeconfig.apply(_without_arguments)
                """,
            )
        ],
        "getting credentials: exec: ",
    ),
    "Cloud NAT maps endpoints independently, with dynamic ports": (
        [changed(NAT, 'props["enable_endpoint_independent_mapping"] = True')],
        "enableEndpointIndependentMapping': 'true'. It is exclusive with",
    ),
    "the kubeconfig leads to a DNS endpoint that answers nobody": (
        [
            cluster(dnsEndpoint=True),
            changed(CLUSTER, 'props["control_plane_endpoints_config"] = None'),
        ],
        "configured Kubernetes cluster is unreachable",
    ),
}


@pytest.mark.prove(reason="unit tests of simulator and kubeconfig have each of them")
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails in the cloud's words."""
    mutations, message = MUTATIONS[what]
    failures = said(rehearse(*mutations))
    assert any(message in failure for failure in failures), failures


@pytest.mark.prove(reason="tests/components and the generated configs declare and preview both")
def test_the_dns_endpoint_and_a_maintenance_window_work(rehearse: Rehearse) -> None:
    """Without any authorized network: the kubeconfig goes by the name, and by nothing else."""
    rehearsal = rehearse(
        cluster(dnsEndpoint=True, authorizedNetworks={}, privateEndpoint=True, maintenance=WEEKEND)
    )
    assert rehearsal.failures == []


@pytest.mark.prove(reason="test_buckets has claims that work, test_attachments each class")
@pytest.mark.parametrize("name", ["fast-ssd", "premium-rwo"])
def test_a_claim_of_a_class_that_nobody_made_is_named(rehearse: Rehearse, name: str) -> None:
    """Such as one that another cluster has; GKE's own work."""

    def claims(config: dict[str, Any]) -> None:
        config["gpu-cluster:volumeClaims"] = {"results": {"size": "1Gi", "storageClass": name}}
        sample = config["gpu-cluster:workloads"]["sample-gpu-pod"]
        sample["volumes"] = {"results": {"mountPath": "/results", "claim": "results"}}

    failures = said(rehearse(configured(claims), deadline=20))
    if name == "premium-rwo":
        assert failures == []
    else:
        assert any(f'"{name}"' in failure for failure in failures), failures


@pytest.mark.xdist_group("previews")
def test_authorized_networks_that_the_private_endpoint_ignores_break_a_policy(
    previewing: Sandboxes,
) -> None:
    """The settings cannot ask for it; a program that leaves it out is refused in the preview."""
    ignored = (
        'props["master_authorized_networks_config"]["private_endpoint_enforcement_enabled"] = False'
    )
    private = cluster(privateEndpoint=True, authorizedNetworks={"vpn": "10.200.0.0/16"})
    sandbox = previewing("dev")
    with as_it_was(sandbox) as program:
        for mutation in (private, changed(CLUSTER, ignored)):
            mutation(program)
        outcome = sandbox.engine.preview(POLICIES)
    assert not outcome.ok
    said = "cluster gpu-dev opens its private control"
    assert any(said in error for error in outcome.errors), outcome.errors
