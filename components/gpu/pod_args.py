"""The settings of all pods on GPU nodes: image, resources, account, files, secrets."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from ..access.service_accounts import ServiceAccountArgs
from ..catalog import kubernetes as names
from ..catalog.accelerators import GPUS
from ..cluster import GpuPool
from ..kube import quantity
from ..schema.effect import Sent
from ..schema.limits import (
    CONFIG_KEY,
    DNS_LABEL,
    IMAGE,
    QUANTITY,
    SUBDOMAIN,
    UNIQUE,
    VARIABLE,
    Env,
    ExtendedResources,
    Hint,
    matching,
)
from ..schema.refusal import OTHER, Keys, Refusal, Refusals, collected, raised, refuse, unknown
from ..schema.rules import Checked, rule
from .resources_args import ResourcesArgs, check_order, check_room
from .volume_args import VolumeArgs, VolumeClaimArgs, VolumeName

USER_MOST = 2**31 - 1
"""The maximum of `runAsUser` and `fsGroup`, as Kubernetes validates them."""


_SELECTORS = Sent("ResourceClaimTemplate spec.spec.devices.requests[].exactly.selectors[]")
_PRODUCT = matching(
    "part of a GPU's name; allowed: letters, digits, spaces, '-' and '.'",
    re.compile(r"[A-Za-z0-9 .-]+"),
)
_CAPABILITY = matching(
    'a compute capability with a point, such as "9.0"',
    re.compile(r"[0-9]{1,2}\.[0-9]"),
    hint=lambda value: f'write "{value}.0"' if re.fullmatch("[0-9]{1,2}", value) else None,
)


def _common(name: str, others: Collection[str | None]) -> str:
    """The longest run of words of a GPU's name that its other names have, too, as far as known."""
    words, known = name.split(), [other for other in others if other]
    runs = (" ".join(words[i:j]) for i, j in itertools.combinations(range(len(words) + 1), 2))
    return max((run for run in runs if all(run in other for other in known)), key=len)


def _version(capability: str) -> list[int]:
    return [int(part) for part in capability.split(".")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSelectorArgs(Checked):
    """The GPUs that a pod accepts, of those in a pool whose pods claim them: each that is set must
    hold."""

    product: Annotated[Annotated[str, _PRODUCT] | None, _SELECTORS] = None
    """A part of the GPU's name as `nvidia-smi` prints it, such as `H100`."""
    memory: Annotated[Annotated[str, QUANTITY] | None, _SELECTORS] = None
    """The least memory of a GPU. What the driver reports is less than the name says: a T4 of 16 GB
    has `15Gi`."""
    compute_capability: Annotated[Annotated[str, _CAPABILITY] | None, _SELECTORS] = None
    """The least CUDA compute capability, in quotes: `"8.0"`."""

    def check_met(self, pool: GpuPool) -> None:
        """Raises `Refusal` if none of the pool's GPUs meets a condition, as far as is known, or if
        a scaler that knows only the GPU's name starts no node for it."""
        gpus = [GPUS[model] for model in pool.models]
        name = pool.name_at_zero
        tests: Sequence[tuple[str, str | None, str, str, str, Callable[[str, str], bool]]] = (
            ("product", self.product, "driver_name", ", as NVIDIA's driver calls them", "a part of",
             lambda name, part: part in name),
            ("memory", self.memory, "memory_most", ", as NVIDIA's driver measures it", "less than",
             lambda most, least: quantity.parse(most) >= quantity.parse(least)),
            ("computeCapability", self.compute_capability, "compute_capability", "", "less than",
             lambda has, least: _version(has) >= _version(least)),
        )  # fmt: skip
        for key, value, fact, source, less, meets in tests:
            facts = [*dict.fromkeys(getattr(gpu, fact) for gpu in gpus)]
            if value and facts and not any(has is None or meets(has, value) for has in facts):
                reason = f"is met by no GPU of pool {pool.name}{source}"
                remedy = f"{less} that will do, or drop the key" if name is None else "drop the key"
            elif value and name is not None and not (key == "product" and value in name):
                reason = (
                    f"would start no node of pool {pool.name}: without one, its scaler only knows "
                    f"that the GPU is called {name!r}"
                )
                remedy = "drop the key, or give the pool one zone and minNodes: 1"
            else:
                continue
            if name is not None:
                # Both the scaler and the driver have to know it.
                facts = [_common(name, facts)] if key == "product" else []
            raise refuse(("gpuSelector", key), value)(reason, allowed=facts, remedy=remedy)

    @rule
    def _check_memory(self) -> Iterator[Refusal]:
        if self.memory is None:
            return
        most = max(gpu.memory_gb for gpu in GPUS.values())
        if not 2**30 <= quantity.parse(self.memory) <= most * 2**30:
            yield refuse("memory", self.memory)(
                f"is not the memory of a GPU; write it in GiB, 1Gi to {most}Gi"
            )

    @property
    def expressions(self) -> list[str]:
        """The conditions in CEL, with the attributes of NVIDIA's DRA driver."""
        of = f"['{names.GPU_CLASS}']"
        capability = f"device.attributes{of}.cudaComputeCapability"
        return [
            *([f"device.attributes{of}.productName.contains('{self.product}')"]
              if self.product else []),
            *([f"device.capacity{of}.memory.compareTo(quantity('{self.memory}')) >= 0"]
              if self.memory else []),
            *([f"{capability}.compareTo(semver('{self.compute_capability}.0')) >= 0"]
              if self.compute_capability else []),
        ]  # fmt: skip


_EXCLUDE_EACH_OTHER = frozenset({"existing", "pod_security"})
"""Fields of a namespace that cannot be combined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFromArgs(Checked):
    """Environment variables from an existing object: one for each key, or only one, for `key`."""

    secret: Annotated[
        Annotated[str, SUBDOMAIN] | None, Sent("PodSpec containers[].envFrom[].secretRef.name")
    ] = None
    """A Secret of the pod's namespace."""
    config_map: Annotated[
        Annotated[str, SUBDOMAIN] | None, Sent("PodSpec containers[].envFrom[].configMapRef.name")
    ] = None
    """A ConfigMap of the pod's namespace."""
    key: Annotated[Annotated[str, CONFIG_KEY] | None, Sent("PodSpec containers[].env[]")] = None
    """The only key to use; by default, all keys, each as the variable with its name."""
    name: Annotated[Annotated[str, VARIABLE] | None, Sent("PodSpec containers[].env[]")] = None
    """The environment variable that gets the value of `key`."""

    @rule
    def _check_source(self) -> None:
        if (self.secret is None) == (self.config_map is None):
            raise refuse("secret")("give either secret or configMap")

    @rule
    def _check_key(self) -> None:
        if self.key is not None and self.name is None:
            raise refuse("name")("is missing", remedy=f"set it to the variable for key {self.key}")
        if self.name is not None and self.key is None:
            raise refuse("key")("is missing", remedy=f"set it to the key for variable {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArgs:
    """A namespace for a team or an application, which this stack creates unless it is `existing`.
    Removing its block deletes all of it. Its `default` account mounts no API token."""

    existing: Annotated[bool, Sent("Namespace")] = False
    """Whether the namespace is created elsewhere, for instance by Argo CD. The stack then only
    refers to it: it must exist before `pulumi up`, and its Pod Security Standard is not checked."""

    pod_security: Annotated[
        Literal["baseline", "privileged"], Sent("Namespace metadata.labels")
    ] = "baseline"
    """The Pod Security Standard that the cluster enforces in it. Pods that mount host directories
    or share GPUs with GKE's MPS need `privileged`, and the namespace must be listed in
    `namespace-enforces` of `policy/config.json`."""

    @staticmethod
    def check_given(given: Collection[str]) -> None:
        """Raises `Refusal` for the level of an existing namespace. `given`: the set fields."""
        if _EXCLUDE_EACH_OTHER.issubset(given):
            raise refuse("podSecurity")(
                "is for a namespace that this stack creates; drop the key, or drop existing"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Auxiliary:
    """The service accounts and claims of a stack, which its pods may name."""

    accounts: Mapping[str, ServiceAccountArgs] = field(default_factory=dict)
    claims: Mapping[str, VolumeClaimArgs] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodArgs(Checked):
    """The settings of pods on GPU nodes, whatever kind of object creates them."""

    image: Annotated[str, IMAGE, Sent("PodSpec containers[].image")]
    """The container's image."""
    namespace: Annotated[str, DNS_LABEL, Sent("ObjectMeta namespace")] = "default"
    """The namespace: one of `namespaces`, or an existing one."""
    env: Annotated[Env, Sent("PodSpec containers[].env[]")] = field(default_factory=dict)
    """Environment variables."""
    requests: Annotated[ResourcesArgs, Sent("PodSpec containers[].resources.requests")] = field(
        default_factory=ResourcesArgs
    )
    """The resources that one pod requests."""
    limits: Annotated[ResourcesArgs, Sent("PodSpec containers[].resources.limits")] = field(
        default_factory=ResourcesArgs
    )
    """The maximum resources that one pod may use."""
    service_account: Annotated[str | None, Sent("PodSpec serviceAccountName")] = None
    """The pods' identity in the cloud: one of `serviceAccounts`; by default, none. Pods never get a
    token for the Kubernetes API."""
    volumes: Mapping[VolumeName, VolumeArgs] = field(default_factory=dict)
    """Files in addition to those of the image, by the volume's name."""
    env_from: Sequence[EnvFromArgs] = ()
    """Secrets and ConfigMaps whose keys become environment variables; `env` takes precedence."""
    image_pull_secrets: Annotated[
        Sequence[Annotated[str, SUBDOMAIN]], UNIQUE, Sent("PodSpec imagePullSecrets[]")
    ] = ()
    """Existing Secrets of type `kubernetes.io/dockerconfigjson` in the pods' namespace, for a
    registry that the nodes' own identity cannot read."""

    run_as_user: Annotated[
        Annotated[int, Interval(ge=1, le=USER_MOST), Hint("0 is root")] | None,
        Sent("PodSpec securityContext.runAsUser"),
    ] = None
    """The user ID of the containers; by default, the image's. Set it if the image does not run as
    root: otherwise its containers cannot write to claims and buckets, which belong to root."""

    efa: Annotated[
        Literal["all"] | Annotated[int, Ge(0)] | None, Sent("PodSpec containers[].resources.limits")
    ] = None
    """How many Elastic Fabric Adapters of its node a pod has, on a pool with `efa`: a number, 0 for
    none, or `all`. By default, the workers of a training job that use all GPUs of several nodes
    have all, and other pods none. The image needs libfabric and aws-ofi-nccl, as AWS's Deep
    Learning Containers have them."""

    extended_resources: Annotated[
        ExtendedResources, Sent("PodSpec containers[].resources.limits")
    ] = field(default_factory=dict)
    """Extended resources besides GPUs that a pod has, of those in `extendedResources` of its pool,
    and how many of each: `{ rdma/hca: 1 }`."""

    gpu_selector: GpuSelectorArgs | None = None
    """Which of the pool's GPUs a pod accepts, on a pool with `devicePlugin: dra`; by default, any.
    """

    @rule
    def _check_variables(self) -> Iterator[Refusal]:
        # Kubernetes merges variables by name: the API server refuses two of one name.
        taken: dict[str | None, Keys] = {name: ("env", name) for name in self.env}
        for position, source in enumerate(self.env_from):
            path = ("envFrom", position, "name")
            if source.name and (other := taken.setdefault(source.name, path)) != path:
                reason = f"{source.name} is in {OTHER}, too; drop one of the two"
                yield refuse(path)(reason, other=other)

    def variables(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """The environment variables with plain values: `env`, and of `defaults` those that neither
        it nor `envFrom` sets."""
        own = {*self.env, *(source.name for source in self.env_from)}
        kept = {name: value for name, value in defaults.items() if name not in own}
        return {**kept, **self.env}

    @rule
    def _check_order(self) -> None:
        check_order(self.requests, self.limits)

    def check_fits(self, pool: GpuPool) -> None:
        """Raises `Refusal` if a pod, here one without GPUs, does not fit any node of `pool`."""
        self.check_node(pool, 0)

    def check_node(self, pool: GpuPool, gpus: int) -> None:
        """Raises `Refusal` if a pod with `gpus` GPUs does not fit any node of `pool`."""
        check_room(self.requests, self.limits, pool, gpus)
        self._check_selector(pool, gpus)
        self._check_extended(pool)
        self._check_disk(pool)

    @property
    def selectors(self) -> list[str]:
        """The conditions for its GPUs, in CEL; empty without any."""
        return self.gpu_selector.expressions if self.gpu_selector else []

    @property
    def uncounted(self) -> str:
        """The key of claims that Kueue before 0.18 does not count; empty without any."""
        return "gpuSelector" if self.gpu_selector else ""

    def _check_selector(self, pool: GpuPool, gpus: int) -> None:
        """Raises `Refusal` for a selector of GPUs that the pod does not claim."""
        if self.gpu_selector is None:
            return
        if pool.device_class is None:
            raise refuse("gpuSelector")(
                f"chooses among GPUs that pods claim, and those of pool {pool.name} request a "
                "number of them",
                remedy="drop the key, or use a pool with devicePlugin: dra",
            )
        if not gpus:
            raise refuse("gpuSelector")("is for the pod's GPUs, and gpus is 0; drop one of the two")
        self.gpu_selector.check_met(pool)

    def _check_extended(self, pool: GpuPool) -> None:
        """Raises `Refusal` for more of an extended resource than a node of `pool` offers."""
        if pool.fabric and (number := self.extended_resources.get(pool.fabric.resource)):
            raise refuse(("extendedResources", pool.fabric.resource))(
                f"is what the key efa requests; write efa: {number}"
            )
        resource = names.EFA
        number = (pool.extended_resources or {}).get(resource)
        if self.efa and number and not pool.adapters:
            raise refuse("efa", self.efa)(
                "is for pools of this stack on EKS; drop the key, and request up to "
                f"{number} of {resource} in extendedResources"
            )
        if self.efa and not pool.adapters:
            raise refuse("efa", self.efa)(
                f"is not possible: the nodes of pool {pool.name} have no Elastic Fabric Adapters",
                remedy="drop the key, or give it a pool with efa: true, on EKS",
            )
        _check_offered(("efa",), PodArgs.adapters(self, pool), pool.adapters, pool, "")
        way = f"add it to gpuPools.{pool.name}.extendedResources, on platform existing"
        for name, number in self.extended_resources.items():
            most = (pool.extended_resources or {}).get(name, 0)
            _check_offered(("extendedResources", name), number, most, pool, way)

    def adapters(self, pool: GpuPool) -> int:
        """How many adapters of `pool.fabric` a pod has."""
        return pool.adapters if self.efa == "all" else self.efa or 0

    def extended(self, pool: GpuPool) -> tuple[dict[str, str], dict[str, str]]:
        """The limits of a container for extended resources besides GPUs, and the variables of one
        with adapters of `pool`'s fabric."""
        limits = {name: str(number) for name, number in self.extended_resources.items()}
        number = self.adapters(pool)
        if pool.fabric is None or not number:
            return limits, {}
        return limits | {pool.fabric.resource: str(number)}, dict(pool.fabric.env)

    def default_disk(self, pool: GpuPool) -> str | None:
        """The disk that `pool`'s platform grants a pod, since it requests none; None otherwise."""
        named = self.requests.ephemeral_storage or self.limits.ephemeral_storage
        return None if named else pool.default_disk

    def doubtful_disk(self, pool: GpuPool) -> str | None:
        """The disk that it requests, if `pool`'s platform may refuse so much; None otherwise."""
        asked = self.requests.ephemeral_storage or self.limits.ephemeral_storage
        sure = pool.sure_disk
        return asked if asked and sure and quantity.parse(asked) > quantity.parse(sure) else None

    def _check_disk(self, pool: GpuPool) -> None:
        """Raises `Refusal` for volumes on the node's disk that have no room there."""
        amounts = {
            "limits.ephemeralStorage": self.limits.ephemeral_storage,
            # Such a platform evicts a pod that uses more than it requests.
            "requests.ephemeralStorage": pool.default_disk and self.requests.ephemeral_storage,
            f"the disk that a node of pool {pool.name} has for pods,": pool.room(0).get(
                "ephemeral_storage"
            ),
        }
        sizes = {name: volume.disk for name, volume in self.volumes.items() if volume.disk}
        total = sum(map(quantity.parse, sizes.values()))
        for what, most in amounts.items():
            if most and total > quantity.parse(most):
                last = next(reversed(sizes))
                raise refuse(("volumes", last, "disk"))(
                    f"the pod's volumes on its node's disk, {' and '.join(sizes.values())}, are "
                    f"more than {what} {most}; lower disk, or raise that"
                )

    def uses_host(self, pool: GpuPool) -> bool:
        """Whether pods on `pool` mount host paths, or use the host's IPC namespace."""
        files = any(volume.host_file for volume in self.volumes.values())
        return files or pool.driver_libraries is not None or pool.host_ipc

    @property
    def claims(self) -> Mapping[str, str]:
        """Volume -> the stack's claim behind it, which must not be deleted before the pods."""
        return {name: vol.claim for name, vol in self.volumes.items() if vol.claim is not None}

    @rule
    def _check_volumes(self) -> Iterator[Refusal]:
        paths: dict[str, str] = {}
        for name, volume in self.volumes.items():
            if other := paths.get(volume.mount_path):
                yield refuse(("volumes", name, "mountPath"))(
                    f"{volume.mount_path} is already used by volume {other}; choose another"
                )
            paths[volume.mount_path] = name
            if volume.bucket and self.service_account is None:
                yield refuse(("volumes", name, "bucket"))(
                    f"{volume.bucket} is mounted with the permissions of the pod's service "
                    "account, and the pod has none; set serviceAccount"
                )

    @collected
    def check_names(self, auxiliary: Auxiliary) -> Iterator[Refusal]:
        """Raises the refusals of the names of objects that the stack does not declare."""
        yield from raised(self._account, auxiliary)
        for name, claim in self.claims.items():
            yield from raised(_check_declared, ("volumes", name), claim, auxiliary.claims)

    def check_auxiliary(self, auxiliary: Auxiliary, *, nodes: int, pool: GpuPool) -> None:
        """Raises `Refusal` if the pods, on at most `nodes` nodes at once, name objects that the
        stack does not declare, or that they could not mount there."""
        refusals = Refusals()
        for name, volume in self.volumes.items():
            path = ("volumes", name)
            with refusals:
                if volume.host_file and not pool.host_paths:
                    raise refuse((*path, "hostFile"))(
                        "the platform does not allow files of the host; drop the volume"
                    )
            with refusals:
                if volume.bucket and (account := self._account(auxiliary)) is not None:
                    _check_right(path, volume, str(self.service_account), account)
            with refusals:
                if volume.claim is not None:
                    _check_claim(path, volume, auxiliary.claims, self.namespace, nodes)
                    _check_attachable(path, volume.claim, auxiliary.claims[volume.claim], pool)
        with refusals:
            self._account(auxiliary)
        with refusals:
            self._check_cached(auxiliary.claims, pool)
        refusals.check()

    def _check_cached(self, claims: Mapping[str, VolumeClaimArgs], pool: GpuPool) -> None:
        mounted = {name for name in self.claims.values() if name in claims}
        cached = sorted(n for n in mounted if claims[n].storage_class in pool.cached_disks)
        if cached and len(cached) > (most := min(pool.cached_disks.values())):
            raise refuse("volumes")(
                f"have {len(cached)} disks with a cache ({', '.join(cached)}), and a node of pool "
                f"{pool.name} has room for {most}",
                remedy="lower cluster.dataCache.size, raise the pool's dataCacheCount, or give "
                "claims another storageClass",
            )

    def _account(self, auxiliary: Auxiliary) -> ServiceAccountArgs | None:
        name, namespace = self.service_account, self.namespace
        if name is None:
            return None
        if name not in auxiliary.accounts:
            allowed = unknown(name, auxiliary.accounts, f"add serviceAccounts.{name}")
            raise refuse("serviceAccount", name)("is not a service account", remedy=allowed)
        if (other := auxiliary.accounts[name].namespace) != namespace:
            raise refuse("serviceAccount")(
                f"{name} is in namespace {other}, and the pods are in {namespace}; pods can use "
                "only accounts of their own namespace: use one namespace for both"
            )
        return auxiliary.accounts[name]


def _check_offered(path: Keys, number: int, most: int, pool: GpuPool, way: str) -> None:
    if number > most:
        raise refuse(path, number)(
            f"is more than a node of pool {pool.name} has ({most})",
            remedy=f"drop the key, or {f'request at most {most}' if most else way}",
        )


def _check_right(path: Keys, volume: VolumeArgs, name: str, account: ServiceAccountArgs) -> None:
    bucket = str(volume.bucket)
    right = account.buckets.get(bucket)
    if right is None:
        have = ", ".join(sorted(account.buckets)) or "none"
        raise refuse((*path, "bucket"))(
            f"service account {name} may not read {bucket}, only {have}",
            remedy=f"add {bucket}: read to serviceAccounts.{name}.buckets",
        )
    if volume.writable and right != "write":
        raise refuse((*path, "readOnly"))(
            f"service account {name} may only read {bucket}",
            remedy=f"drop the key, or set serviceAccounts.{name}.buckets.{bucket} to write",
        )


def _check_attachable(path: Keys, name: str, claim: VolumeClaimArgs, pool: GpuPool) -> None:
    given = claim.storage_class or ""
    if given not in pool.unattachable:
        return
    key = f"volumeClaims.{name}.storageClass"
    if given in pool.cached_disks and not pool.cacheable:
        raise refuse((*path, "claim"))(
            f"nodes of pool {pool.name} have no local SSDs for Data Cache, which the disk of "
            f"{name} needs; set gpuPools.{pool.name}.dataCacheCount, if its machine type can have "
            "it, or use a claim with another storageClass, or a bucket"
        )
    other = pool.cacheable[0] if given in pool.cached_disks else pool.attachable
    change = f"set {key} to {other}" if other else f"drop {key}"
    raise refuse((*path, "claim"))(
        f"nodes of pool {pool.name} cannot attach the disk of {name}, whose storageClass is "
        f"{given or 'the default one'}; {change}, or use a bucket. A claim that exists cannot "
        "change its class: add one with another name"
    )


def _check_declared(path: Keys, name: str, claims: Mapping[str, VolumeClaimArgs]) -> None:
    if name not in claims:
        allowed = unknown(name, claims, f"add volumeClaims.{name}")
        raise refuse((*path, "claim"), name)(
            "is not one of volumeClaims",
            remedy=f"{allowed}. If somebody else created the claim, name it in existingClaim",
        )


def _check_claim(
    path: Keys,
    volume: VolumeArgs,
    claims: Mapping[str, VolumeClaimArgs],
    namespace: str,
    nodes: int,
) -> None:
    name = str(volume.claim)
    _check_declared(path, name, claims)
    claim = claims[name]
    if claim.namespace != namespace:
        raise refuse((*path, "claim"))(
            f"{name} is in namespace {claim.namespace}, and the pods are in {namespace}",
            remedy="pods can mount only claims of their own namespace: use one namespace for both",
        )
    if nodes > 1 and not claim.several_nodes:
        raise refuse((*path, "claim"))(
            f"{name} is {claim.access_mode}, which only one node can mount, and the pods run on "
            f"{nodes} nodes; use a bucket or, except on EKS, accessMode ReadWriteMany and a "
            "storageClass that supports it"
        )
    if volume.writable and claim.access_mode == "ReadOnlyMany":
        raise refuse((*path, "readOnly"))(f"{name} is ReadOnlyMany", remedy="drop the key")
