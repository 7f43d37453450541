"""Who follows a refusal that offers numbers or words is not refused again at the same key."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from gpu_cluster.components.catalog import eks, gke
from gpu_cluster.components.catalog.accelerators import GPUS
from gpu_cluster.components.schema.refusal import Range, Refusal
from gpu_cluster.components.settings import load as settings
from quality.keys import Setting, choices
from tests.program.effects import STACK_OF, Config, leaves, places, starts
from tests.program.environments import as_engine_config, values_of


def refused(config: Config) -> dict[str, Refusal]:
    """Key -> what refuses it."""
    try:
        settings.from_config(as_engine_config(config))
    except Refusal as first:
        return {refusal.at: refusal for refusal in reversed(first.every)}
    return {}


def wrong(setting: Setting) -> list[Any]:
    """Values of its type that the setting never has; none if any value is good."""
    if setting.kind in (int, float):
        return [-(10**9), 10**9]
    return ["nonsense"] if choices(setting.kind) or setting.kind is str else []


def spots(platform: str) -> Iterator[tuple[Setting, Config, int]]:
    """Each setting with wrong values, a config, and the position of a block that can have it."""
    for key, setting in leaves(platform).items():
        seen = set()
        for start in starts(platform) if wrong(setting) else ():
            scaler = start["gpu-cluster:cluster"].get("scaler")
            for position, (block, _) in enumerate(places(start, key)):
                mark = json.dumps([block, scaler, "gpu-cluster:batch" in start])
                if mark not in seen:
                    seen.add(mark)
                    yield setting, start, position


def offers(refusal: Refusal | None) -> list[Any]:
    """The ends of the numbers that it offers, or the words."""
    if refusal is None:
        return []
    allowed = refusal.allowed
    ends = (allowed.least, allowed.most) if isinstance(allowed, Range) else allowed
    return [end for end in ends if end is not None]


def refused_again(setting: Setting, start: Config, position: int) -> list[tuple[str, str]]:
    """The refusals of wrong values, each with that of a value that it offers."""
    config = copy.deepcopy(start)
    block, name = [*places(config, setting.key)][position]
    found = []
    for given in wrong(setting):
        block[name] = given
        paths = refused(config)
        own = {path: refusal for path, refusal in paths.items() if path.endswith(f".{name}")}
        for path, refusal in own.items():
            if refusal.given != given:
                continue
            for value in offers(refusal):
                block[name] = value
                again = refused(config).get(path)
                # More than this key has to change, and the refusal says what.
                more = (
                    "which its owner must enable", "name one of them in",
                    "needs cluster.gpuNetworks", "only for clusters of this stack",
                    "EC2 does not offer", "needs a file system that several nodes can mount",
                )  # fmt: skip
                if again and not any(words in str(again) for words in more):
                    found.append((str(refusal), str(again)))
    return found


@pytest.mark.parametrize(
    "most", [60, pytest.param(10**6, marks=pytest.mark.prove(reason="all of them: minutes"))]
)
@pytest.mark.parametrize("platform", STACK_OF)
def test_what_a_refusal_offers_is_accepted(platform: str, most: int) -> None:
    """With the other settings of the same stack."""
    drawn = [*spots(platform)]
    assert len(drawn) > 100
    drawn = Random(platform).sample(drawn, min(most, len(drawn)))
    assert [fault for spot in drawn for fault in refused_again(*spot)] == []


def claimed_pools(platform: str) -> Iterator[tuple[str, Config]]:
    """Models of GPUs, each with pools of it that pods claim: on GKE with and without nodes."""
    for name, kind in eks.INSTANCE_TYPES.items() if platform == "eks" else ():
        yield kind.gpu_model, {"instanceTypes": [name], "minNodes": 1}
    for name, row in gke.ACCELERATORS.items() if platform == "gke" else ():
        own = (kind.name for kind in gke.MACHINE_TYPES.values() if kind.accelerator == name)
        pool: Config = {"machineType": next(own, "n1-standard-4"), "capacityType": "spot"}
        pool |= {"accelerator": name, "gpusPerNode": 1} if name in gke.N1_ATTACH_LIMITS else {}
        zones = gke.MACHINE_ZONES.get(pool["machineType"]) or gke.ACCELERATOR_ZONES[name]
        for nodes in (0, 2):
            pool |= {"driver": "daemonset", "zones": [min(zones, default="")], "minNodes": nodes}
            yield row.model, dict(pool)


@pytest.mark.parametrize(("platform", "least"), [("gke", 10), ("eks", 12)])
def test_what_the_refusal_of_a_gpu_selector_offers_is_accepted(platform: str, least: int) -> None:
    """For each GPU of the cloud, by whichever of its names the user calls it."""
    config, offered, seen = values_of(STACK_OF[platform]), set(), set()
    for model, pool in claimed_pools(platform):
        if "zones" in pool:
            config["gpu-cluster:cluster"]["location"] = pool["zones"][0]
        pool |= {"devicePlugin": "dra", "maxNodes": 2}
        pod: Config = {"kind": "job", "image": "example.com/i:1", "pool": "gpus"}
        config |= {"gpu-cluster:gpuPools": {"gpus": pool}, "gpu-cluster:workloads": {"a": pod}}
        if (model, pool["minNodes"]) in seen or refused(config):
            continue
        seen.add((model, pool["minNodes"]))
        names = {model, str(GPUS[model].driver_name), "NVIDIA", "none", *gke.DRA_NAMES.values()}
        for key, given in (
            *(("product", name) for name in sorted(names)), ("memory", "8Gi"), ("memory", "279Gi"),
            ("computeCapability", "3.0"), ("computeCapability", "99.9"),
        ):  # fmt: skip
            pod["gpuSelector"] = {key: given}
            refusal = refused(config).get(f"gpu-cluster:workloads.a.gpuSelector.{key}")
            assert refusal is None or key != "product" or refusal.allowed
            if refusal and "minNodes: 1" in refusal.remedy:
                one = {"gpu-cluster:gpuPools": {"gpus": {**pool, "minNodes": 1}}}
                assert refused(config | one) == {}, str(refusal)
            for word in offers(refusal):
                pod["gpuSelector"] = {key: word}
                assert refused(config) == {}, str(refusal)
                offered.add(model)
    assert len(offered) >= least
