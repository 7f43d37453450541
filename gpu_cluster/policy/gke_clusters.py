"""GKE clusters, and the rest of a stack in Google Cloud: their part of the rules."""

from collections.abc import Iterator, Sequence

from gpu_cluster.components.catalog.bad_releases import harm
from gpu_cluster.components.catalog.clouds import GOOGLE
from gpu_cluster.policy.clusters import let_in, open_to, unprotected
from gpu_cluster.policy.reading import (
    UNKNOWN,
    Resource,
    differs,
    get,
    is_off,
    is_on,
    is_one_of,
    items,
)


def control_plane_open(resource: Resource, **sizes: float) -> Iterator[str]:
    """The addresses of `masterAuthorizedNetworksConfig`."""
    if resource.type != GOOGLE.cluster:
        return
    props = resource.props
    private = get(props, "privateClusterConfig", "enablePrivateEndpoint")
    networks = get(props, "masterAuthorizedNetworksConfig")
    enforced = get(networks, "privateEndpointEnforcementEnabled")
    if private is True and enforced not in (True, UNKNOWN):
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
    blocks = [get(block, "cidrBlock") for block in items(networks, "cidrBlocks")]
    if get(networks, "gcpPublicCidrsAccessEnabled") is True:
        yield (
            f"cluster {resource.name} opens its control plane to every machine in Google "
            "Cloud, including those of other customers; set gcpPublicCidrsAccessEnabled to "
            "false"
        )
    # An empty list allows no one; a missing one allows everyone.
    yield from open_to(resource, blocks, listed=networks is not None, **sizes)


def nodes_private(resource: Resource) -> Iterator[str]:
    """Neither the cluster nor a pool gives them addresses."""
    props = resource.props
    created = get(props, "privateClusterConfig", "enablePrivateNodes")
    if resource.type == GOOGLE.cluster and is_off(created):
        yield (
            f"cluster {resource.name} gives its nodes public addresses; set "
            "privateClusterConfig.enablePrivateNodes"
        )
    # A pool without the block is as its cluster; with it, the provider sends false for no value.
    private = get(props, "networkConfig", "enablePrivateNodes")
    if resource.type == GOOGLE.node_pool and get(props, "networkConfig") and is_off(private):
        yield (
            f"pool {resource.name} gives its nodes public addresses; set "
            "networkConfig.enablePrivateNodes, or, if the cluster already existed, ask its owner "
            "to update the cluster with --enable-private-nodes"
        )


def firewall_open(resource: Resource, *, publicPrefix: float) -> Iterator[str]:
    """A rule of the network."""
    props = resource.props
    if resource.type != "gcp:compute/firewall:Firewall":
        return
    if get(props, "direction") in (None, "INGRESS") and items(props, "allows"):
        yield from let_in(resource, items(props, "sourceRanges"), publicPrefix=publicPrefix)


def secrets_encrypted(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """In `stacks`, with the owner's key; Google always encrypts them with its key."""
    if resource.type == GOOGLE.cluster and is_one_of(resource.stack, stacks):
        state = get(resource.props, "databaseEncryption", "state")
        if differs(state, "ENCRYPTED"):
            yield (
                f"cluster {resource.name} does not encrypt Kubernetes secrets with a key of your "
                f"own, which stack {resource.stack} must; set databaseEncryption"
            )


def old_credentials(resource: Resource) -> Iterator[str]:
    """Legacy ABAC, and client certificates."""
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


def upgrades(resource: Resource) -> Iterator[str]:
    """By a release channel, and of the pools' nodes."""
    props = resource.props
    if resource.type == GOOGLE.cluster:
        channel = get(props, "releaseChannel", "channel")
        if channel in (None, "", "UNSPECIFIED"):
            yield (
                f"cluster {resource.name} has no release channel; set releaseChannel.channel to "
                "RAPID, REGULAR, STABLE or EXTENDED"
            )
    if resource.type == GOOGLE.node_pool:
        management = get(props, "management")
        flex_start = get(props, "nodeConfig", "flexStart") in (True, UNKNOWN)
        for field in ("autoUpgrade", "autoRepair"):
            # Flex-start nodes end automatically, and GKE refuses to repair them.
            if get(management, field) is False and not (field == "autoRepair" and flex_start):
                yield f"pool {resource.name} has {field} off; set management.{field}"


def known_bad_release(resource: Resource) -> Iterator[str]:
    """Of a cluster or a node pool."""
    keys = {GOOGLE.cluster: "minMasterVersion", GOOGLE.node_pool: "version"}
    version = get(resource.props, keys.get(resource.type, ""))
    if isinstance(version, str) and (bad := harm("gke", version)):
        yield f"{resource.name}: {bad.line(version)}"


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
    """The provider's own: it is on by default."""
    if resource.type == GOOGLE.cluster:
        protection = get(resource.props, "deletionProtection")
        yield from unprotected(resource, protection, stacks=stacks)
