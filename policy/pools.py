"""Rules on node pools: taint, size, boot, metadata, disks."""

from collections.abc import Iterator, Sequence

from components.catalog import kubernetes as names
from components.catalog.clouds import AWS, GOOGLE
from components.catalog.gke import ACCELERATORS
from policy import scalers
from policy.ceiling import kept_running, kept_warm
from policy.pods import pods_of
from policy.pool import OWN_MODULES, Pool, driver_version, pool_of
from policy.reading import UNKNOWN, Resource, differs, each, get, is_off, is_on, is_one_of, number

LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


def taint(resource: Resource, *, key: str) -> Iterator[str]:
    """A GPU pool is tainted, so that pods without a GPU are not scheduled on it."""
    pool = _gpu_pool(resource)
    if pool is None or any(taint is UNKNOWN or UNKNOWN in taint for taint in pool.taints):
        return
    if not any(
        name == key and effect in ("NoSchedule", "NoExecute") for name, _, effect in pool.taints
    ):
        yield (
            f"GPU pool {pool.name} has no taint {key} with effect NoSchedule, so pods that use no "
            "GPU may fill its nodes; declare the taint on the pool"
        )


def minimum(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """A GPU pool costs nothing while it is not used."""
    pool = _gpu_pool(resource)
    if pool is None or is_one_of(resource.stack, stacks):
        return
    least = number(pool.least)
    if least:
        yield kept_running(pool.name, least, resource.stack, stacks)
    if pool.warm[0]:
        yield kept_warm(pool.name, pool.warm[0], resource.stack, stacks)


def size(resource: Resource) -> Iterator[str]:
    """The autoscaler's node counts are not reverted by an update."""
    pool = pool_of(resource)
    if pool is None or resource.type not in (AWS.node_pool, GOOGLE.node_pool):
        return
    least, most = number(pool.least), number(pool.most)
    if least is None or most is None or least == most:
        return
    field = "scalingConfig.desiredSize" if resource.type == AWS.node_pool else "initialNodeCount"
    covering = (field, field.partition(".")[0])
    if not any(path in covering for path in resource.ignore_changes):
        yield (
            f"pool {pool.name} is autoscaled from {least:g} to {most:g} nodes and does not ignore "
            f"changes of {field}, so an update reverts the autoscaler's count; ignore it"
        )


def secure_boot(resource: Resource) -> Iterator[str]:
    """GKE nodes boot only signed software, unless the driver's module is installed by others."""
    scaling = get(resource.props, "clusterAutoscaling")
    autopilot = is_on(get(resource.props, "enableAutopilot"))
    if resource.type == GOOGLE.cluster and get(scaling, "enabled") is True and not autopilot:
        created = get(scaling, "autoProvisioningDefaults", "shieldedInstanceConfig")
        if is_off(get(created, "enableSecureBoot")):
            yield (
                f"cluster {resource.name} creates node pools that boot without Secure Boot; set "
                "clusterAutoscaling.autoProvisioningDefaults.shieldedInstanceConfig"
                ".enableSecureBoot"
            )
    pool = pool_of(resource)
    if pool is None or resource.type != GOOGLE.node_pool:
        return
    shielded = get(resource.props, "nodeConfig", "shieldedInstanceConfig")
    version = driver_version(pool)
    if pool.gpu and version in (OWN_MODULES, UNKNOWN):
        return
    if is_off(get(shielded, "enableSecureBoot")):
        yield (
            f"pool {resource.name} boots without Secure Boot; set "
            "nodeConfig.shieldedInstanceConfig.enableSecureBoot"
        )
    if get(shielded, "enableIntegrityMonitoring") is False:
        yield (
            f"pool {resource.name} has integrity monitoring off; set "
            "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring"
        )


def mig_profile(resource: Resource) -> Iterator[str]:
    """A GPU on GKE is only split into MIG partitions that its model supports."""
    asked = []
    if resource.type == GOOGLE.node_pool:
        for accelerator in each(resource.props, "nodeConfig", "guestAccelerators"):
            size = get(accelerator, "gpuPartitionSize")
            asked.append((f"pool {resource.name}", get(accelerator, "type"), size))
            strategy = get(accelerator, "gpuSharingConfig", "gpuSharingStrategy")
            if isinstance(size, str) and size and strategy == "MPS":
                yield (
                    f"pool {resource.name} shares MIG partitions by MPS, which does not run on "
                    "them; set gpuSharingStrategy to TIME_SHARING, or drop gpuPartitionSize"
                )
    for pods in pods_of(resource):
        selector = get(pods.spec, "nodeSelector")
        size = get(selector, names.GKE_GPU_PARTITION_SIZE)
        asked.append((pods.title, get(selector, names.GKE_ACCELERATOR), size))
    for who, model, size in asked:
        gpu = ACCELERATORS.get(model) if isinstance(model, str) else None
        if gpu is not None and isinstance(size, str) and size and size not in gpu.mig:
            allowed = ", ".join(gpu.mig) or "none, because it does not support MIG"
            yield f"{who} requests MIG partition {size} of {model}; allowed: {allowed}"


def metadata(resource: Resource, *, hops: float) -> Iterator[str]:
    """Pods cannot get the node's own credentials from the metadata server."""
    props = resource.props
    match resource.type:
        case GOOGLE.node_pool:
            mode = get(props, "nodeConfig", "workloadMetadataConfig", "mode")
            if differs(mode, "GKE_METADATA"):
                yield (
                    f"pool {resource.name} exposes the node's credentials to pods; set "
                    "nodeConfig.workloadMetadataConfig.mode to GKE_METADATA"
                )
            if get(props, "nodeConfig", "metadata", "disable-legacy-endpoints") == "false":
                yield (
                    f"pool {resource.name} serves the legacy metadata endpoints, which need no "
                    "header; set disable-legacy-endpoints to true"
                )
        case "aws:ec2/launchTemplate:LaunchTemplate":
            options = get(props, "metadataOptions")
            if get(options, "httpEndpoint") == "disabled":
                return
            if differs(get(options, "httpTokens"), "required"):
                yield (
                    f"launch template {resource.name} allows IMDSv1; set "
                    "metadataOptions.httpTokens to required"
                )
            limit = get(options, "httpPutResponseHopLimit")
            if limit is not UNKNOWN and (number(limit) is None or limit > hops):
                hop_limit = "no" if limit is None else f"{limit:g} as"
                yield (
                    f"launch template {resource.name} sets {hop_limit} hop limit for instance "
                    f"metadata, so pods may get the node's role; set it to {hops:g}"
                )
        case scalers.EC2_NODE_CLASS:
            # Defaults of the EC2NodeClass of Karpenter 1.14.3: IMDSv2, one hop (components/crds).
            options = get(props, "spec", "metadataOptions")
            if get(options, "httpEndpoint") == "disabled":
                return
            if get(options, "httpTokens") == "optional":
                yield (
                    f"EC2NodeClass {resource.name} allows IMDSv1; set spec.metadataOptions"
                    ".httpTokens to required"
                )
            limit = number(get(options, "httpPutResponseHopLimit"))
            if limit is not None and limit > hops:
                yield (
                    f"EC2NodeClass {resource.name} sets {limit:g} as hop limit for instance "
                    f"metadata, so pods may get the node's role; set it to {hops:g}"
                )
        case AWS.node_pool if get(props, "launchTemplate") is None:
            yield (
                f"node group {resource.name} has no launch template, and EKS's own lets pods reach "
                "instance metadata over two hops; give it one with IMDSv2 and hop limit "
                f"{hops:g}"
            )


def disks(resource: Resource) -> Iterator[str]:
    """Data that nodes write is encrypted; on Google Cloud, it always is."""
    props = resource.props
    if resource.type == LAUNCH_TEMPLATE:
        mappings = each(props, "blockDeviceMappings")
        if not mappings:
            yield (
                f"launch template {resource.name} names no volume, so the root volume is "
                "encrypted only if that is the account's default; map it with ebs.encrypted"
            )
        for mapping in mappings:
            volume = get(mapping, "ebs")
            if volume is not None and is_off(get(volume, "encrypted")):
                yield (
                    f"launch template {resource.name}: volume {get(mapping, 'deviceName')} is not "
                    "encrypted; set ebs.encrypted"
                )
    elif resource.type == scalers.EC2_NODE_CLASS:
        # Without mappings Karpenter encrypts the volumes (DefaultEBS in pkg/providers/amifamily/
        # resolver.go of 1.14); a mapping has no default (components/crds).
        for mapping in each(props, "spec", "blockDeviceMappings"):
            if is_off(get(mapping, "ebs", "encrypted")):
                yield (
                    f"EC2NodeClass {resource.name}: volume {get(mapping, 'deviceName')} is not "
                    "encrypted; set ebs.encrypted"
                )
    elif resource.type == "aws:ebs/volume:Volume" and is_off(get(props, "encrypted")):
        yield f"volume {resource.name} is not encrypted; set encrypted"
    elif resource.type == AWS.node_pool and get(props, "launchTemplate") is None:
        yield (
            f"node group {resource.name} has no launch template, so its volumes are encrypted "
            "only if that is the account's default; give it one with ebs.encrypted"
        )


def _gpu_pool(resource: Resource) -> Pool | None:
    pool = pool_of(resource)
    return pool if pool is not None and pool.gpu else None
