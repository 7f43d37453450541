"""Cases of the rules on control planes and networks."""

from tests.policy.cases import DROP, Case, Rows, cases_of, changed
from tests.policy.resources import (
    AUTOPILOT,
    EKS_CLUSTER,
    GKE_CLUSTER,
    LAUNCH_TEMPLATE,
    T4_POOL,
    V100_GROUP,
    in_stack,
    resource,
)

SUBNET = resource("aws:ec2/subnet:Subnet", "public", {"mapPublicIpOnLaunch": False})
FIREWALL = resource(
    "gcp:compute/firewall:Firewall",
    "ssh",
    {"direction": "INGRESS", "allows": [{"protocol": "tcp"}], "sourceRanges": ["10.0.0.0/8"]},
)
EGRESS = resource(
    "gcp:compute/firewall:Firewall",
    "out",
    {"direction": "EGRESS", "allows": [{"protocol": "all"}], "sourceRanges": ["0.0.0.0/0"]},
)
SECURITY_GROUP = resource(
    "aws:ec2/securityGroup:SecurityGroup", "nodes", {"ingress": [{"cidrBlocks": ["10.0.0.0/8"]}]}
)
RULE = resource(
    "aws:ec2/securityGroupRule:SecurityGroupRule",
    "ssh",
    {"type": "ingress", "cidrBlocks": ["10.0.0.0/8"]},
)
INGRESS = resource(
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "ssh", {"cidrIpv6": "fd00::/8"}
)
SSH_GROUP = changed(
    V100_GROUP, ("remoteAccess",), {"ec2SshKey": "key", "sourceSecurityGroupIds": ["sg-1"]}
)
PRIVATE = changed(
    changed(GKE_CLUSTER, ("privateClusterConfig", "enablePrivateEndpoint"), True),
    ("masterAuthorizedNetworksConfig", "privateEndpointEnforcementEnabled"),
    True,
)
BY_NAME = changed(
    changed(
        GKE_CLUSTER, ("controlPlaneEndpointsConfig",), {"ipEndpointsConfig": {"enabled": False}}
    ),
    ("masterAuthorizedNetworksConfig",),
    DROP,
)

NARROW = "allowed: private networks of /8 and public ones of /16, or smaller"

UNENFORCED = (
    "cluster gpu opens its private control plane to everything that is routed into its network; "
    "set privateEndpointEnforcementEnabled to true"
)

ROWS: Rows = {
    "control-plane-open": [
        ((GKE_CLUSTER, PRIVATE),
         ("masterAuthorizedNetworksConfig", "privateEndpointEnforcementEnabled"), False,
         UNENFORCED),
        ((PRIVATE,), ("masterAuthorizedNetworksConfig", "privateEndpointEnforcementEnabled"), DROP,
         UNENFORCED),
        ((PRIVATE, GKE_CLUSTER), ("masterAuthorizedNetworksConfig", "cidrBlocks", 0, "cidrBlock"),
         "0.0.0.0/0", f"cluster gpu lets 0.0.0.0/0 reach its control plane; {NARROW}"),
        ((changed(EKS_CLUSTER, ("vpcConfig", "publicAccessCidrs"), ["10.0.0.0/8"]),),
         ("vpcConfig", "publicAccessCidrs", 0), "10.0.0.0/7",
         f"cluster gpu lets 10.0.0.0/7 reach its control plane; {NARROW}"),
        ((changed(EKS_CLUSTER, ("vpcConfig",), {"endpointPublicAccess": False}), EKS_CLUSTER),
         ("vpcConfig", "publicAccessCidrs"), ["::/0"],
         f"cluster gpu lets ::/0 reach its control plane; {NARROW}"),
        ((BY_NAME,), ("controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled"), True,
         "cluster gpu opens its control plane to the whole internet; name the networks that may"),
        ((GKE_CLUSTER,), ("masterAuthorizedNetworksConfig",), DROP,
         "cluster gpu opens its control plane to the whole internet; name the networks that may"),
        ((GKE_CLUSTER,), ("masterAuthorizedNetworksConfig", "gcpPublicCidrsAccessEnabled"), True,
         "cluster gpu opens its control plane to every machine in Google Cloud, including those "
         "of other customers; set gcpPublicCidrsAccessEnabled to false"),
        ((EKS_CLUSTER,), ("vpcConfig", "publicAccessCidrs"), DROP,
         "cluster gpu opens its control plane to the whole internet; name the networks that may"),
        ((EKS_CLUSTER,), ("vpcConfig", "publicAccessCidrs", 0), "10.0.0.0/16",
         "cluster gpu lets 10.0.0.0/16 reach its control plane; allowed: private networks of /20 "
         "and public ones of /24, or smaller", {"prefix": 20, "publicPrefix": 24}),
    ],
    "nodes-private": [
        ((GKE_CLUSTER,), ("privateClusterConfig",), DROP,
         "cluster gpu gives its nodes public addresses; set "
         "privateClusterConfig.enablePrivateNodes"),
        ((T4_POOL,), ("networkConfig", "enablePrivateNodes"), False,
         "pool t4 gives its nodes public addresses; drop networkConfig.enablePrivateNodes"),
        ((LAUNCH_TEMPLATE,), ("networkInterfaces", 0, "associatePublicIpAddress"), "true",
         "launch template v100 gives nodes public addresses; drop associatePublicIpAddress"),
        ((SUBNET,), ("mapPublicIpOnLaunch",), True,
         "subnet public gives every machine a public address; drop mapPublicIpOnLaunch"),
        ((SSH_GROUP,), ("remoteAccess", "sourceSecurityGroupIds"), DROP,
         "node group v100 opens SSH to the whole internet; name "
         "remoteAccess.sourceSecurityGroupIds, or drop remoteAccess"),
    ],
    "firewall-open": [
        ((EGRESS, FIREWALL), ("sourceRanges",), ["10.0.0.0/8", "0.0.0.0/0"],
         "ssh lets 0.0.0.0/0 in; name the networks that need access"),
        ((EGRESS, FIREWALL), ("sourceRanges",), ["128.0.0.0/1", "10.0.0.0/8", "0.0.0.0/1"],
         "ssh lets 128.0.0.0/1 and 0.0.0.0/1, together 0.0.0.0/0 in; name the networks that need "
         "access"),
        ((changed(INGRESS, ("cidrIpv4",), "34.0.0.0/8"),), ("cidrIpv4",), "128.0.0.0/1",
         "ssh lets 128.0.0.0/1 in; name the networks that need access"),
        ((SECURITY_GROUP,), ("ingress", 0, "cidrBlocks", 0), "0.0.0.0/0",
         "nodes lets 0.0.0.0/0 in; name the networks that need access"),
        ((RULE,), ("cidrBlocks", 0), "0.0.0.0/0",
         "ssh lets 0.0.0.0/0 in; name the networks that need access"),
        ((INGRESS,), ("cidrIpv6",), "::/0",
         "ssh lets ::/0 in; name the networks that need access"),
    ],
    "secrets-encrypted": [
        ((EKS_CLUSTER,), ("encryptionConfig",), DROP,
         "cluster gpu does not encrypt Kubernetes secrets with a KMS key; set encryptionConfig "
         "with resources: [secrets]"),
        ((EKS_CLUSTER,), ("encryptionConfig", "resources"), [],
         "cluster gpu does not encrypt Kubernetes secrets with a KMS key; set encryptionConfig "
         "with resources: [secrets]"),
        ((GKE_CLUSTER,), ("databaseEncryption", "state"), "DECRYPTED",
         "cluster gpu does not encrypt Kubernetes secrets with a key of your own, which stack dev "
         "must; set databaseEncryption", {"stacks": ["dev"]}),
        ((changed(in_stack(GKE_CLUSTER, "other"), ("databaseEncryption",), {}), GKE_CLUSTER),
         ("databaseEncryption",), DROP,
         "cluster gpu does not encrypt Kubernetes secrets with a key of your own, which stack dev "
         "must; set databaseEncryption", {"stacks": ["dev"]}),
    ],
    "old-credentials": [
        ((GKE_CLUSTER,), ("enableLegacyAbac",), True,
         "cluster gpu has legacy ABAC, which gives every service account broad rights; drop "
         "enableLegacyAbac"),
        ((GKE_CLUSTER,), ("masterAuth", "clientCertificateConfig", "issueClientCertificate"), True,
         "cluster gpu issues a client certificate, which cannot be revoked; set "
         "issueClientCertificate to false"),
        ((EKS_CLUSTER,), ("accessConfig", "authenticationMode"), "API_AND_CONFIG_MAP",
         "cluster gpu reads users from the aws-auth ConfigMap; set "
         "accessConfig.authenticationMode to API and use access entries"),
        ((EKS_CLUSTER,), ("accessConfig", "bootstrapClusterCreatorAdminPermissions"), True,
         "cluster gpu makes its creator an administrator forever; set "
         "bootstrapClusterCreatorAdminPermissions to false and give an access entry"),
    ],
    "audit-log": [
        ((EKS_CLUSTER,), ("enabledClusterLogTypes",), ["api"],
         "cluster gpu keeps no audit log; add audit to enabledClusterLogTypes"),
    ],
    "extended-channel": [
        ((GKE_CLUSTER,), ("releaseChannel", "channel"), "EXTENDED",
         "cluster gpu is on channel EXTENDED: once standard support of its minor has ended, the "
         "control plane costs six times as much; set releaseChannel.channel to REGULAR or STABLE, "
         "or disable this rule"),
    ],
    "upgrades": [
        ((GKE_CLUSTER,), ("releaseChannel", "channel"), "UNSPECIFIED",
         "cluster gpu has no release channel; set releaseChannel.channel to RAPID, REGULAR, "
         "STABLE or EXTENDED"),
        ((EKS_CLUSTER,), ("upgradePolicy",), DROP,
         "cluster gpu enters extended support automatically, at six times the price of a control "
         "plane; set upgradePolicy.supportType to STANDARD"),
        ((T4_POOL,), ("management", "autoUpgrade"), False,
         "pool t4 has autoUpgrade off; set management.autoUpgrade"),
        ((changed(T4_POOL, ("management", "autoRepair"), True),), ("management", "autoRepair"),
         False, "pool t4 has autoRepair off; set management.autoRepair"),
    ],
    "deletion-protection": [
        ((AUTOPILOT, in_stack(GKE_CLUSTER, "prod-eu")), ("deletionProtection",), False,
         "cluster gpu has deletionProtection off, which stack prod-eu must have on; set it to "
         "true"),
        ((in_stack(EKS_CLUSTER, "prod"),), ("deletionProtection",), DROP,
         "cluster gpu has deletionProtection off, which stack prod must have on; set it to true"),
        ((in_stack(GKE_CLUSTER, "live"),), ("@protect",), False,
         "cluster gpu is not protected in Pulumi, so its pools would be deleted before the cloud "
         "refuses to delete it; set the resource option protect", {"stacks": ["live"]}),
    ],
}  # fmt: skip

CASES = [
    *cases_of(ROWS),
    *(
        Case(
            rule="control-plane-open",
            good=(EKS_CLUSTER,),
            path=("vpcConfig", "publicAccessCidrs"),
            bad=blocks,
            message=f"cluster gpu lets {wide} reach its control plane; {NARROW}",
        )
        for blocks, wide in (
            (["34.0.0.0/8"], "34.0.0.0/8"),
            (["203.0.0.0/15"], "203.0.0.0/15"),
            (
                ["8.8.0.0/17", "203.0.0.0/16", "203.1.0.0/16"],
                "203.0.0.0/16 and 203.1.0.0/16, together 203.0.0.0/15",
            ),
            (
                ["0.0.0.0/1", "10.0.0.0/8", "128.0.0.0/1"],
                "0.0.0.0/1 and 128.0.0.0/1, together 0.0.0.0/0",
            ),
            (["2001:db8::/31"], "2001:db8::/31"),
        )
    ),
]
