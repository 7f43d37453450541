"""Rules on control planes and networks: access, encryption, upgrades."""

from collections.abc import Iterator, Sequence
from typing import Any

from components.catalog.clouds import AWS, GOOGLE
from policy import scalers
from policy.networks import too_wide
from policy.reading import (
    UNKNOWN,
    Resource,
    differs,
    each,
    get,
    is_off,
    is_on,
    is_one_of,
    known,
)


def open_control_plane(resource: Resource, *, prefix: float, publicPrefix: float) -> Iterator[str]:
    """The control plane is reachable only from networks that are listed explicitly.

    `prefix`: of the largest private network; `publicPrefix`: of the largest on the internet.
    """
    props = resource.props
    if resource.type == GOOGLE.cluster:
        private = get(props, "privateClusterConfig", "enablePrivateEndpoint")
        networks = get(props, "masterAuthorizedNetworksConfig")
        if private is True and get(networks, "privateEndpointEnforcementEnabled") not in (
            True,
            UNKNOWN,
        ):
            yield (
                f"cluster {resource.name} opens its private control plane to everything that is "
                "routed into its network; set privateEndpointEnforcementEnabled to true"
            )
        if private in (True, UNKNOWN):
            return
        # Without an address, there is only the name, and IAM decides who gets access.
        by_address = get(props, "controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled")
        if by_address in (False, UNKNOWN):
            return
        blocks = [get(block, "cidrBlock") for block in each(networks, "cidrBlocks")]
        if get(networks, "gcpPublicCidrsAccessEnabled") is True:
            yield (
                f"cluster {resource.name} opens its control plane to every machine in Google "
                "Cloud, including those of other customers; set gcpPublicCidrsAccessEnabled to "
                "false"
            )
        # An empty list allows no one; a missing one allows everyone.
        empty = networks is None
    elif resource.type == AWS.cluster:
        public = get(props, "vpcConfig", "endpointPublicAccess")
        if public is False or public is UNKNOWN:
            return
        blocks = each(props, "vpcConfig", "publicAccessCidrs")
        empty = not blocks
    else:
        return
    if empty:
        yield (
            f"cluster {resource.name} opens its control plane to the whole internet; name the "
            "networks that may"
        )
    for wide in too_wide(blocks, private=prefix, public=publicPrefix):
        yield (
            f"cluster {resource.name} lets {wide} reach its control plane; allowed: private "
            f"networks of /{prefix:g} and public ones of /{publicPrefix:g}, or smaller"
        )


def private_nodes(resource: Resource) -> Iterator[str]:
    """Nodes have no public addresses."""
    props = resource.props
    match resource.type:
        case GOOGLE.cluster:
            if is_off(get(props, "privateClusterConfig", "enablePrivateNodes")):
                yield (
                    f"cluster {resource.name} gives its nodes public addresses; set "
                    "privateClusterConfig.enablePrivateNodes"
                )
        case GOOGLE.node_pool:
            if get(props, "networkConfig", "enablePrivateNodes") is False:
                yield (
                    f"pool {resource.name} gives its nodes public addresses; drop "
                    "networkConfig.enablePrivateNodes"
                )
        case "aws:ec2/launchTemplate:LaunchTemplate":
            for interface in each(props, "networkInterfaces"):
                if is_on(get(interface, "associatePublicIpAddress")):
                    yield (
                        f"launch template {resource.name} gives nodes public addresses; drop "
                        "associatePublicIpAddress"
                    )
        case scalers.EC2_NODE_CLASS | scalers.AUTO_NODE_CLASS:
            spec = get(props, "spec")
            for path in (("associatePublicIPAddress",),
                         ("advancedNetworking", "associatePublicIPAddress")):  # fmt: skip
                if get(spec, *path) is True:
                    kind = resource.type.rpartition(":")[2]
                    yield (
                        f"{kind} {resource.name} gives nodes public addresses; drop spec."
                        f"{'.'.join(path)}"
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


def open_firewall(resource: Resource, *, publicPrefix: float) -> Iterator[str]:
    """No firewall rule of the stack is open to the whole internet, in one block or in several.

    `publicPrefix`: of the largest network on the internet.
    """
    props = resource.props
    blocks: list[Any] = []
    match resource.type:
        case "gcp:compute/firewall:Firewall":
            if get(props, "direction") in (None, "INGRESS") and each(props, "allows"):
                blocks = each(props, "sourceRanges")
        case "aws:ec2/securityGroup:SecurityGroup":
            for rule in each(props, "ingress"):
                blocks += [*each(rule, "cidrBlocks"), *each(rule, "ipv6CidrBlocks")]
        case "aws:ec2/securityGroupRule:SecurityGroupRule":
            if get(props, "type") == "ingress":
                blocks = [*each(props, "cidrBlocks"), *each(props, "ipv6CidrBlocks")]
        case "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
            blocks = [get(props, "cidrIpv4"), get(props, "cidrIpv6")]
    for wide in too_wide(blocks, private=0, public=publicPrefix):
        yield f"{resource.name} lets {wide} in; name the networks that need access"


def secrets_encrypted(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """Kubernetes secrets are encrypted with the owner's own key: on EKS, on GKE in some stacks."""
    props = resource.props
    if resource.type == AWS.cluster:
        config = get(props, "encryptionConfig")
        resources = each(config, "resources")
        if config is None or (known(resources) and "secrets" not in resources):
            yield (
                f"cluster {resource.name} does not encrypt Kubernetes secrets with a KMS key; set "
                "encryptionConfig with resources: [secrets]"
            )
    if resource.type == GOOGLE.cluster and is_one_of(resource.stack, stacks):
        state = get(props, "databaseEncryption", "state")
        if differs(state, "ENCRYPTED"):
            yield (
                f"cluster {resource.name} does not encrypt Kubernetes secrets with a key of your "
                f"own, which stack {resource.stack} must; set databaseEncryption"
            )


def old_credentials(resource: Resource) -> Iterator[str]:
    """No one gets access with a certificate, a password or rules outside of Kubernetes RBAC."""
    props = resource.props
    if resource.type == GOOGLE.cluster:
        if is_on(get(props, "enableLegacyAbac")):
            yield (
                f"cluster {resource.name} has legacy ABAC, which gives every service account broad "
                "rights; drop enableLegacyAbac"
            )
        config = get(props, "masterAuth", "clientCertificateConfig")
        if is_on(get(config, "issueClientCertificate")):
            yield (
                f"cluster {resource.name} issues a client certificate, which cannot be revoked; "
                "set issueClientCertificate to false"
            )
    if resource.type == AWS.cluster:
        access = get(props, "accessConfig")
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
    types = each(resource.props, "enabledClusterLogTypes")
    if known(types) and "audit" not in types:
        yield f"cluster {resource.name} keeps no audit log; add audit to enabledClusterLogTypes"


def upgrades(resource: Resource) -> Iterator[str]:
    """Clusters and nodes are upgraded, and no fee for an old version comes as a surprise."""
    props = resource.props
    if resource.type == GOOGLE.cluster:
        channel = get(props, "releaseChannel", "channel")
        if channel in (None, "", "UNSPECIFIED"):
            yield (
                f"cluster {resource.name} has no release channel; set releaseChannel.channel to "
                "RAPID, REGULAR, STABLE or EXTENDED"
            )
    if resource.type == AWS.cluster and differs(
        get(props, "upgradePolicy", "supportType"), "STANDARD"
    ):
        yield (
            f"cluster {resource.name} enters extended support automatically, at six times the "
            "price of a control plane; set upgradePolicy.supportType to STANDARD"
        )
    if resource.type == GOOGLE.node_pool:
        management = get(props, "management")
        flex_start = get(props, "nodeConfig", "flexStart") in (True, UNKNOWN)
        for field in ("autoUpgrade", "autoRepair"):
            # Flex-start nodes end automatically, and GKE refuses to repair them.
            if get(management, field) is False and not (field == "autoRepair" and flex_start):
                yield f"pool {resource.name} has {field} off; set management.{field}"


def extended_channel(resource: Resource) -> Iterator[str]:
    """The fee for a version whose standard support has ended is intended."""
    if (
        resource.type == GOOGLE.cluster
        and get(resource.props, "releaseChannel", "channel") == "EXTENDED"
    ):
        yield (
            f"cluster {resource.name} is on channel EXTENDED: once standard support of its minor "
            "has ended, the control plane costs six times as much; set releaseChannel.channel to "
            "REGULAR or STABLE, or disable this rule"
        )


def deletion_protection(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """A production cluster is not deleted or replaced by mistake."""
    if resource.type not in (GOOGLE.cluster, AWS.cluster) or not is_one_of(resource.stack, stacks):
        return
    protection = get(resource.props, "deletionProtection")
    # By default, Google Cloud's provider protects it; AWS does not.
    if protection is False or (protection is None and resource.type == AWS.cluster):
        yield (
            f"cluster {resource.name} has deletionProtection off, which stack {resource.stack} "
            "must have on; set it to true"
        )
    elif not resource.protect and protection is not UNKNOWN:
        yield (
            f"cluster {resource.name} is not protected in Pulumi, so its pools would be deleted "
            "before the cloud refuses to delete it; set the resource option protect"
        )
