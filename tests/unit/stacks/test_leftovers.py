"""What a destroy would leave in the cloud, from plain API objects."""

from typing import Any

from stacks.live.leftovers import Leftover, leftovers, text


def an_object(name: str, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": spec,
        "status": status or {},
    }


def a_volume(name: str, claim: str | None, policy: str = "Delete") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "persistentVolumeReclaimPolicy": policy,
        "csi": {"volumeHandle": f"vol-{name}"},
    }
    if claim:
        spec["claimRef"] = {"namespace": "team", "name": claim}
    return {"metadata": {"name": name}, "spec": spec}


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


def test_ingresses_and_gateways_have_load_balancers_too() -> None:
    """A Gateway's address stands elsewhere."""
    address = {"addresses": [{"type": "IPAddress", "value": "198.51.100.2"}]}
    found = leftovers("google", ingresses=[an_object("i")], gateways=[an_object("g", address)])
    assert [(one.kind, one.name, "198.51.100.2" in one.what) for one in found] == [
        ("Gateway", "team/g", True),
        ("Ingress", "team/i", False),
    ]


def test_disks_are_named_once_and_those_that_stay_say_so() -> None:
    """By their claims; without a claim by themselves, and a claim without a disk not at all."""
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
        ("PersistentVolume", "c", "EBS volume vol-c"),
        ("PersistentVolume", "d", "EBS volume vol-d"),
        ("PersistentVolumeClaim", "team/data", "EBS volume vol-a"),
        ("PersistentVolumeClaim", "team/kept", "EBS volume vol-b"),
    ]
    assert found[2].remove == "kubectl delete persistentvolumeclaim data --namespace team"
    assert found[3].remove.endswith(
        "(its reclaim policy is Retain: the disk stays until you delete vol-b in the cloud)"
    )


def test_what_the_stack_declares_goes_with_it() -> None:
    """Nobody is told to delete the checkpoints that `volumeClaims` keeps; another stack's claim, in
    the same cluster, is as a user's, and a disk that is retained is named."""
    ours, kept, theirs = an_object("ours"), an_object("kept"), an_object("theirs")
    for own in (ours, kept):
        own["metadata"]["annotations"] = {"gpu-cluster/stack": "gpu-cluster/mine"}
    theirs["metadata"]["annotations"] = {"gpu-cluster/stack": "gpu-cluster/other"}
    found = leftovers(
        "google",
        claims=[ours, kept, theirs],
        volumes=[a_volume("a", "ours"), a_volume("k", "kept", "Retain"), a_volume("b", "theirs")],
        stack="mine",
    )
    assert [one.name for one in found] == ["team/kept", "team/theirs"]


def test_the_text_says_what_to_do() -> None:
    """Nothing is one line; something is named, with what follows from it."""
    assert text([]) == "nothing: no Service, Ingress, Gateway or volume has anything in the cloud"
    said = text(leftovers("google", services=[an_object("web", type="LoadBalancer")]))
    assert "kubectl delete service web --namespace team" in said
    assert "remove them before pulumi destroy" in said
