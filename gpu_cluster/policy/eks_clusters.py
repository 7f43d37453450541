"""EKS clusters, and the rest of a stack in AWS: their part of the rules."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpu_cluster.components.catalog.clouds import AWS
from gpu_cluster.policy.clusters import let_in, open_to, unprotected
from gpu_cluster.policy.reading import (
    UNKNOWN,
    Resource,
    differs,
    get,
    is_off,
    is_on,
    items,
    known,
    number,
)


def control_plane_open(resource: Resource, **sizes: float) -> Iterator[str]:
    """The addresses of `publicAccessCidrs`."""
    public = get(resource.props, "vpcConfig", "endpointPublicAccess")
    if resource.type != AWS.cluster or public is False or public is UNKNOWN:
        return
    blocks = items(resource.props, "vpcConfig", "publicAccessCidrs")
    yield from open_to(resource, blocks, listed=bool(blocks), **sizes)


def nodes_private(resource: Resource) -> Iterator[str]:
    """Neither launch template nor subnet gives them addresses, and SSH is not open."""
    props = resource.props
    match resource.type:
        case "aws:ec2/launchTemplate:LaunchTemplate":
            for interface in items(props, "networkInterfaces"):
                if is_on(get(interface, "associatePublicIpAddress")):
                    yield (
                        f"launch template {resource.name} gives nodes public addresses; drop "
                        "associatePublicIpAddress"
                    )
        case "aws:ec2/subnet:Subnet":
            if is_on(get(props, "mapPublicIpOnLaunch")):
                yield (
                    f"subnet {resource.name} gives every machine a public address; drop "
                    "mapPublicIpOnLaunch"
                )
        case AWS.node_pool:
            access = get(props, "remoteAccess")
            key, groups = get(access, "ec2SshKey"), get(access, "sourceSecurityGroupIds")
            if isinstance(key, str) and not groups:
                yield (
                    f"node group {resource.name} opens SSH to the whole internet; name "
                    "remoteAccess.sourceSecurityGroupIds, or drop remoteAccess"
                )


def firewall_open(resource: Resource, *, publicPrefix: float) -> Iterator[str]:
    """A rule of a security group."""
    props = resource.props
    blocks: list[Any] = []
    match resource.type:
        case "aws:ec2/securityGroup:SecurityGroup":
            for rule in items(props, "ingress"):
                blocks += [*items(rule, "cidrBlocks"), *items(rule, "ipv6CidrBlocks")]
        case "aws:ec2/securityGroupRule:SecurityGroupRule":
            if get(props, "type") == "ingress":
                blocks = [*items(props, "cidrBlocks"), *items(props, "ipv6CidrBlocks")]
        case "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
            blocks = [get(props, "cidrIpv4"), get(props, "cidrIpv6")]
    yield from let_in(resource, blocks, publicPrefix=publicPrefix)


def secrets_encrypted(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """With a KMS key, in every stack."""
    if resource.type == AWS.cluster:
        config = get(resource.props, "encryptionConfig")
        resources = items(config, "resources")
        if config is None or (known(resources) and "secrets" not in resources):
            yield (
                f"cluster {resource.name} does not encrypt Kubernetes secrets with a KMS key; set "
                "encryptionConfig with resources: [secrets]"
            )


def old_credentials(resource: Resource) -> Iterator[str]:
    """The aws-auth ConfigMap, and the rights of the creator."""
    if resource.type == AWS.cluster:
        access = get(resource.props, "accessConfig")
        mode = get(access, "authenticationMode")
        if differs(mode, "API"):
            yield (
                f"cluster {resource.name} reads users from the aws-auth ConfigMap; set "
                "accessConfig.authenticationMode to API and use access entries"
            )
        if is_on(get(access, "bootstrapClusterCreatorAdminPermissions")):
            yield (
                f"cluster {resource.name} makes its creator an administrator forever; set "
                "bootstrapClusterCreatorAdminPermissions to false and give an access entry"
            )


def audit_log(resource: Resource) -> Iterator[str]:
    """Actions in the cluster are recorded in an audit log; on GKE, they always are."""
    if resource.type != AWS.cluster:
        return
    types = items(resource.props, "enabledClusterLogTypes")
    if known(types) and "audit" not in types:
        yield f"cluster {resource.name} keeps no audit log; add audit to enabledClusterLogTypes"


def upgrades(resource: Resource) -> Iterator[str]:
    """Standard support ends with an upgrade, not with a fee."""
    if resource.type == AWS.cluster and differs(
        get(resource.props, "upgradePolicy", "supportType"), "STANDARD"
    ):
        yield (
            f"cluster {resource.name} enters extended support automatically, at six times the "
            "price of a control plane; set upgradePolicy.supportType to STANDARD"
        )


def deletion_protection(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """AWS's own: it is off by default."""
    if resource.type == AWS.cluster:
        protection = get(resource.props, "deletionProtection")
        yield from unprotected(resource, False if protection is None else protection, stacks=stacks)


def instance_metadata(resource: Resource, *, hops: float) -> Iterator[str]:
    """IMDSv2, and as many hops as the node itself needs."""
    props = resource.props
    match resource.type:
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
        case AWS.node_pool if get(props, "launchTemplate") is None:
            yield (
                f"node group {resource.name} has no launch template, and EKS's own lets pods reach "
                "instance metadata over two hops; give it one with IMDSv2 and hop limit "
                f"{hops:g}"
            )


def disks_encrypted(resource: Resource) -> Iterator[str]:
    """The volumes of launch templates, and volumes of their own."""
    props = resource.props
    if resource.type == "aws:ec2/launchTemplate:LaunchTemplate":
        mappings = items(props, "blockDeviceMappings")
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
    elif resource.type == "aws:ebs/volume:Volume" and is_off(get(props, "encrypted")):
        yield f"volume {resource.name} is not encrypted; set encrypted"
    elif resource.type == AWS.node_pool and get(props, "launchTemplate") is None:
        yield (
            f"node group {resource.name} has no launch template, so its volumes are encrypted "
            "only if that is the account's default; give it one with ebs.encrypted"
        )
