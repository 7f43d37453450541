"""What a destroy would leave in the cloud, from plain API objects."""

import json
from typing import Any

import pytest

from gpu_cluster.stacks.definition.settings import config_of
from gpu_cluster.stacks.live import leftovers as module
from gpu_cluster.stacks.live.leftovers import Leftover, Objects, answer, leftovers_text


def leftovers(cloud: str, owner: str = "", **objects: Any) -> list[Leftover]:
    return module.leftovers(cloud, Objects(**objects), owner)


def an_object(
    name: str, status: dict[str, Any] | None = None, *, owner: str = "", **spec: Any
) -> dict[str, Any]:
    """`owner`: the stack that declares it."""
    metadata = {"name": name, "namespace": "team", "annotations": of_stack(owner)}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def of_stack(owner: str) -> dict[str, str]:
    return {"gpu-cluster/stack": owner} if owner else {}


def a_volume(
    name: str,
    claim: str | None,
    policy: str = "Delete",
    *,
    driver: str = "ebs.csi.aws.com",
    provisioned: bool = True,
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "persistentVolumeReclaimPolicy": policy,
        "csi": {"driver": driver, "volumeHandle": f"vol-{name}"},
    }
    if claim:
        spec["claimRef"] = {"namespace": "team", "name": claim}
    notes = {"pv.kubernetes.io/provisioned-by": driver} if provisioned else {}
    return {"metadata": {"name": name, "annotations": notes}, "spec": spec}


def a_snapshot(name: str, policy: str, driver: str, **source: str) -> dict[str, Any]:
    """A VolumeSnapshotContent."""
    return {
        "metadata": {"name": f"content-{name}"},
        "spec": {
            "deletionPolicy": policy,
            "driver": driver,
            "source": source,
            "volumeSnapshotRef": {"namespace": "team", "name": name},
        },
        "status": {"snapshotHandle": f"snap-{name}"},
    }


BALANCED = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}


def test_a_load_balancer_is_named_with_the_command_that_removes_it() -> None:
    """Services that stay inside the cluster have nothing outside of it."""
    inside = [an_object("a", type="ClusterIP"), an_object("b", type="NodePort"), an_object("c")]
    outside = an_object("web", BALANCED, type="LoadBalancer")
    assert leftovers("google", services=[*inside, outside]) == [
        Leftover(
            kind="Service",
            name="team/web",
            what="forwarding rule, firewall rules k8s-*, perhaps target pool or NEGs; address "
            "198.51.100.1",
            remove="kubectl delete service web --namespace team",
        )
    ]
    (found,) = leftovers("aws", services=[an_object("web", type="LoadBalancer")])
    assert found.what == "load balancer, target groups, network interfaces, security group"


def test_instances_of_a_node_pool_of_somebody_else_are_named() -> None:
    """The stack's own are deleted with it, EKS ends those of Auto Mode with the cluster, and other
    clouds have no EC2 instances."""

    def pool(name: str, group: str = "karpenter.k8s.aws", stack: str = "") -> dict[str, Any]:
        spec = {"template": {"spec": {"nodeClassRef": {"group": group}}}}
        return {"metadata": {"name": name, "annotations": of_stack(stack)}, "spec": spec}

    pools = [
        pool("theirs"), pool("idle"), pool("auto", "eks.amazonaws.com"), pool("ours", stack="p/s"),
        pool("others", stack="p/t"), pool("elsewhere", "karpenter.azure.com"),
    ]  # fmt: skip
    claims = [
        {
            "metadata": {"labels": {"karpenter.sh/nodepool": name}},
            "status": {"providerID": f"aws:///us-east-1a/i-{name}"},
        }
        for name in ("theirs", "auto", "ours", "others", "elsewhere")
    ]
    claims.append({"metadata": {"labels": {"karpenter.sh/nodepool": "idle"}}, "status": {}})
    found = leftovers("aws", node_pools=pools, node_claims=claims, owner="p/s")
    assert [(one.kind, one.name, one.remove) for one in found] == [
        ("NodePool", name, f"kubectl delete nodepool {name}") for name in ("others", "theirs")
    ]
    assert found[1].what == "EC2 instances i-theirs, which Karpenter launched and bill on"


def test_ingresses_and_gateways_have_load_balancers_too() -> None:
    """A Gateway's address stands elsewhere."""
    address = {"addresses": [{"type": "IPAddress", "value": "198.51.100.2"}]}
    found = leftovers("google", ingresses=[an_object("i")], gateways=[an_object("g", address)])
    assert [(one.kind, one.name, "198.51.100.2" in one.what) for one in found] == [
        ("Gateway", "team/g", True),
        ("Ingress", "team/i", False),
    ]


def test_a_service_with_endpoint_groups_of_its_own_is_named() -> None:
    """NEGs that no Ingress owns stay, whatever the Service's type; those of an Ingress do not."""

    def noted(name: str, note: str) -> dict[str, Any]:
        service = an_object(name, type="ClusterIP")
        service["metadata"]["annotations"] = {"cloud.google.com/neg": note}
        return service

    services = [
        noted("alone", '{"exposed_ports": {"80": {"name": "mine"}}}'),
        noted("ingress", '{"ingress": true}'),
        noted("broken", "{"),
    ]
    found = leftovers("google", services=services)
    assert [one.name for one in found] == ["team/alone", "team/broken"]
    assert found[0].what == "standalone NEGs, one for each zone and port"
    assert found[0].remove == "kubectl delete service alone --namespace team"
    assert leftovers("aws", services=services) == []


def test_disks_are_named_once_and_what_keeps_their_data_too() -> None:
    """By their claims; without a claim by themselves, and a claim without a disk not at all. What
    a reclaim policy keeps needs nobody's decision."""
    found = leftovers(
        "aws",
        claims=[an_object("data"), an_object("kept"), an_object("waiting")],
        volumes=[
            a_volume("a", "data"),
            a_volume("b", "kept", "Retain"),
            a_volume("c", "gone", "Retain"),
            a_volume("d", None),
        ],
    )
    assert [(one.kind, one.name, one.what) for one in found] == [
        ("PersistentVolume", "c", "EBS volume vol-c, which reclaim policy Retain keeps"),
        ("PersistentVolume", "d", "EBS volume vol-d"),
        ("PersistentVolumeClaim", "team/data", "EBS volume vol-a"),
        (
            "PersistentVolumeClaim",
            "team/kept",
            "EBS volume vol-b, which reclaim policy Retain keeps",
        ),
    ]
    assert found[2].remove == "kubectl delete persistentvolumeclaim data --namespace team"
    assert found[2].keep == (
        "kubectl patch persistentvolume a --patch "
        """'{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'"""
    )
    assert found[3].remove is None


@pytest.mark.parametrize(
    ("driver", "what"),
    [
        ("pd.csi.storage.gke.io", "persistent disk vol-a"),
        ("filestore.csi.storage.gke.io", "Filestore instance vol-a"),
        ("lustre.csi.storage.gke.io", "Managed Lustre instance vol-a"),
        ("ebs.csi.aws.com", "EBS volume vol-a"),
        ("efs.csi.aws.com", "EFS access point vol-a"),
        ("fsx.csi.aws.com", "FSx for Lustre file system vol-a"),
        ("csi.example.com", "volume of csi.example.com vol-a"),
        ("gcsfuse.csi.storage.gke.io", None),
        ("s3.csi.aws.com", None),
    ],
)
@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_a_volume_is_what_its_driver_created(driver: str, what: str | None, policy: str) -> None:
    """Nobody is told to delete a bucket, nor anything else that existed before its volume."""
    claims = [an_object("data")]
    found = leftovers(
        "google", claims=claims, volumes=[a_volume("a", "data", policy, driver=driver)]
    )
    assert [one.what.partition(",")[0] for one in found] == ([what] if what else [])
    static = a_volume("a", "data", policy, driver=driver, provisioned=False)
    assert leftovers("google", claims=claims, volumes=[static]) == []


def test_a_volume_of_kubernetes_own_plugins_counts_if_it_was_created_for_a_claim() -> None:
    """A disk of the time before CSI; NFS and local volumes were there first."""
    made = a_volume("a", None, driver="kubernetes.io/gce-pd")
    del made["spec"]["csi"]
    nfs = {"metadata": {"name": "n"}, "spec": {"nfs": {"server": "nas", "path": "/"}}}
    (found,) = leftovers("google", volumes=[made, nfs])
    assert (found.name, found.what) == ("a", "volume of kubernetes.io/gce-pd a")


def test_snapshots_bill_on_too() -> None:
    """Those that were taken of a volume here; one that was imported is somebody else's."""
    found = leftovers(
        "google",
        snapshots=[
            a_snapshot("a", "Delete", "pd.csi.storage.gke.io", volumeHandle="vol-a"),
            a_snapshot("b", "Retain", "filestore.csi.storage.gke.io", volumeHandle="vol-b"),
            a_snapshot("c", "Delete", "pd.csi.storage.gke.io", snapshotHandle="snap-c"),
        ],
    )
    assert [(one.name, one.what) for one in found] == [
        ("team/a", "disk snapshot snap-a"),
        ("team/b", "Filestore backup snap-b, which deletion policy Retain keeps"),
    ]
    assert found[0].remove == "kubectl delete volumesnapshot a --namespace team"
    assert found[0].keep
    assert found[0].keep.startswith("kubectl patch volumesnapshotcontent content-a")
    assert found[1].remove is None


def test_what_the_stack_declares_goes_with_it() -> None:
    """Another stack's claim, in the same cluster or of a project with a stack of the same name, is
    as a user's; a disk that is retained is named."""
    found = leftovers(
        "google",
        claims=[
            an_object("ours", owner="gpu-cluster/mine"),
            an_object("kept", owner="gpu-cluster/mine"),
            an_object("theirs", owner="gpu-cluster/other"),
            an_object("namesake", owner="other/mine"),
        ],
        volumes=[
            a_volume("a", "ours"),
            a_volume("k", "kept", "Retain"),
            a_volume("b", "theirs"),
            a_volume("c", "namesake"),
        ],
        owner="gpu-cluster/mine",
    )
    assert [one.name for one in found] == ["team/kept", "team/namesake", "team/theirs"]


def test_the_peering_of_the_stack_s_filestore_is_named() -> None:
    """It needs no decision before a destroy, which deletes the instance."""
    claim = an_object("files", owner="gpu-cluster/mine")
    volume = a_volume("f", "files", driver="filestore.csi.storage.gke.io")
    found = leftovers("google", claims=[claim], volumes=[volume], owner="gpu-cluster/mine")
    assert [(one.name, one.remove, one.keep) for one in found] == [("team/files", None, None)]
    lines = leftovers_text(found).splitlines()
    assert "its peering filestore-peer-NNN may outlive it" in lines[0]
    assert lines[1:] == [
        "  if the network cannot be deleted: gcloud compute networks peerings list --network "
        "NETWORK, and delete it there"
    ]


GENERAL = {
    "metadata": {"name": "general", "labels": {"karpenter.sh/nodepool": "general"}},
    "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws"}}}},
    "status": {"providerID": "aws:///us-east-1a/i-1"},
}
"""A NodePool, and a NodeClaim of it."""


def test_in_an_existing_cluster_only_what_the_stack_ends_is_named() -> None:
    """A load balancer, a claim, a snapshot and a NodePool of its owner stay, with the controllers
    that care for them; a NodePool does not if its Karpenter was the stack's. A disk that a class of
    the owner's retains is the stack's."""
    owner = "gpu-cluster/on-eks"
    found: dict[str, list[Any]] = {
        "services": [an_object("web", BALANCED, type="LoadBalancer")],
        "ingresses": [an_object("front")],
        "gateways": [an_object("edge")],
        "claims": [an_object("ours", owner=owner), an_object("theirs")],
        "volumes": [a_volume("o", "ours", "Retain"), a_volume("t", "theirs"), a_volume("n", None)],
        "snapshots": [a_snapshot("s", "Delete", "ebs.csi.aws.com", volumeHandle="vol-s")],
        "node_pools": [GENERAL],
        "node_claims": [GENERAL],
    }
    named = [
        [
            leftover.name
            for leftover in module.leftovers(
                "aws", Objects(**found).of_stack(owner, karpenter=own), owner
            )
        ]
        for own in (False, True)
    ]
    assert named == [["team/ours"], ["general", "team/ours"]]


@pytest.mark.parametrize(
    ("stack", "installed"), [("on-eks", False), ("on-eks", True), ("on-gke", False)]
)
def test_a_stack_on_an_existing_cluster_asks_for_its_own(
    monkeypatch: pytest.MonkeyPatch, stack: str, installed: bool
) -> None:
    """Of all that is in the cluster; a Karpenter is the stack's if its file says so."""
    config = config_of(stack)
    if installed:
        config["gpu-cluster:cluster"]["karpenter"] = {}
    monkeypatch.setattr(module, "config_of", lambda _: config)
    monkeypatch.setattr(module, "client_of", lambda _: None)
    web = json.dumps({"items": [an_object("web", BALANCED, type="LoadBalancer")]})
    monkeypatch.setattr(module, "asked", lambda *_: web.encode())
    custom = {kind: [GENERAL] for kind in (module.NODE_POOLS, module._NODE_CLAIMS)}
    others = {module._GATEWAYS: [an_object("edge")], module._SNAPSHOTS: []}
    monkeypatch.setattr(module, "_custom_objects", lambda *_: {**custom, **others})
    code, document, said = answer(stack, "")
    assert (code, len(document["leftovers"])) == (int(installed), int(installed))
    assert said.startswith("NodePool general" if installed else "an existing cluster is not")


def test_the_text_says_what_to_do() -> None:
    """Nothing is one line. What has to be decided is told from what is kept anyway."""
    assert leftovers_text([]) == (
        "nothing: no Service, Ingress, Gateway, volume, snapshot or NodePool has resources in "
        "the cloud"
    )
    said = leftovers_text(leftovers("google", services=[an_object("web", type="LoadBalancer")]))
    assert "  to delete it: kubectl delete service web --namespace team" in said
    assert "decide on each before pulumi destroy" in said
    kept = leftovers_text(leftovers("aws", volumes=[a_volume("b", "kept", "Retain")]))
    assert kept.splitlines()[-1] == (
        "1 will remain in the cloud and continue to be billed, because of its own policy"
    )
    assert "delete" not in kept
    data = leftovers_text(
        leftovers("aws", claims=[an_object("data")], volumes=[a_volume("a", "data")])
    )
    assert "  to keep the data: kubectl patch persistentvolume a" in data
    assert "  to delete the data: kubectl delete persistentvolumeclaim data" in data
