"""Cases of the rules on control planes and networks."""

from tests.policy.cases import DROP, Case, changed
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
    "cluster gpu lets whatever is routed into its network reach its private control plane; set "
    "privateEndpointEnforcementEnabled to true"
)

CASES = [
    Case(
        rule="control-plane-open",
        good=(GKE_CLUSTER, PRIVATE),
        path=("masterAuthorizedNetworksConfig", "privateEndpointEnforcementEnabled"),
        bad=False,
        message=UNENFORCED,
    ),
    Case(
        rule="control-plane-open",
        good=(PRIVATE,),
        path=("masterAuthorizedNetworksConfig", "privateEndpointEnforcementEnabled"),
        bad=DROP,
        message=UNENFORCED,
    ),
    Case(
        rule="control-plane-open",
        good=(PRIVATE, GKE_CLUSTER),
        path=("masterAuthorizedNetworksConfig", "cidrBlocks", 0, "cidrBlock"),
        bad="0.0.0.0/0",
        message=f"cluster gpu lets 0.0.0.0/0 reach its control plane; {NARROW}",
    ),
    Case(
        rule="control-plane-open",
        good=(changed(EKS_CLUSTER, ("vpcConfig", "publicAccessCidrs"), ["10.0.0.0/8"]),),
        path=("vpcConfig", "publicAccessCidrs", 0),
        bad="10.0.0.0/7",
        message=f"cluster gpu lets 10.0.0.0/7 reach its control plane; {NARROW}",
    ),
    Case(
        rule="control-plane-open",
        good=(changed(EKS_CLUSTER, ("vpcConfig",), {"endpointPublicAccess": False}), EKS_CLUSTER),
        path=("vpcConfig", "publicAccessCidrs"),
        bad=["::/0"],
        message=f"cluster gpu lets ::/0 reach its control plane; {NARROW}",
    ),
    Case(
        rule="control-plane-open",
        good=(BY_NAME,),
        path=("controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled"),
        bad=True,
        message="cluster gpu lets the whole world reach its control plane; name the networks that "
        "may",
    ),
    Case(
        rule="control-plane-open",
        good=(GKE_CLUSTER,),
        path=("masterAuthorizedNetworksConfig",),
        bad=DROP,
        message="cluster gpu lets the whole world reach its control plane; name the networks that "
        "may",
    ),
    Case(
        rule="control-plane-open",
        good=(GKE_CLUSTER,),
        path=("masterAuthorizedNetworksConfig", "gcpPublicCidrsAccessEnabled"),
        bad=True,
        message="cluster gpu lets every machine of Google Cloud, also of others, reach its control "
        "plane; set gcpPublicCidrsAccessEnabled to false",
    ),
    Case(
        rule="control-plane-open",
        good=(EKS_CLUSTER,),
        path=("vpcConfig", "publicAccessCidrs"),
        bad=DROP,
        message="cluster gpu lets the whole world reach its control plane; name the networks that "
        "may",
    ),
    Case(
        rule="control-plane-open",
        good=(EKS_CLUSTER,),
        path=("vpcConfig", "publicAccessCidrs", 0),
        bad="10.0.0.0/16",
        message="cluster gpu lets 10.0.0.0/16 reach its control plane; allowed: private networks "
        "of /20 and public ones of /24, or smaller",
        config={"prefix": 20, "publicPrefix": 24},
    ),
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
    Case(
        rule="nodes-private",
        good=(GKE_CLUSTER,),
        path=("privateClusterConfig",),
        bad=DROP,
        message="cluster gpu gives its nodes public addresses; set "
        "privateClusterConfig.enablePrivateNodes",
    ),
    Case(
        rule="nodes-private",
        good=(T4_POOL,),
        path=("networkConfig", "enablePrivateNodes"),
        bad=False,
        message="pool t4 gives its nodes public addresses; drop networkConfig.enablePrivateNodes",
    ),
    Case(
        rule="nodes-private",
        good=(LAUNCH_TEMPLATE,),
        path=("networkInterfaces", 0, "associatePublicIpAddress"),
        bad="true",
        message="launch template v100 gives nodes public addresses; drop associatePublicIpAddress",
    ),
    Case(
        rule="nodes-private",
        good=(SUBNET,),
        path=("mapPublicIpOnLaunch",),
        bad=True,
        message="subnet public gives every machine a public address; drop mapPublicIpOnLaunch",
    ),
    Case(
        rule="nodes-private",
        good=(SSH_GROUP,),
        path=("remoteAccess", "sourceSecurityGroupIds"),
        bad=DROP,
        message="node group v100 opens SSH to the whole world; name "
        "remoteAccess.sourceSecurityGroupIds, or drop remoteAccess",
    ),
    Case(
        rule="firewall-open",
        good=(EGRESS, FIREWALL),
        path=("sourceRanges",),
        bad=["10.0.0.0/8", "0.0.0.0/0"],
        message="ssh lets 0.0.0.0/0 in; name the networks that need to come in",
    ),
    Case(
        rule="firewall-open",
        good=(EGRESS, FIREWALL),
        path=("sourceRanges",),
        bad=["128.0.0.0/1", "10.0.0.0/8", "0.0.0.0/1"],
        message="ssh lets 128.0.0.0/1 and 0.0.0.0/1, together 0.0.0.0/0 in; name the networks that "
        "need to come in",
    ),
    Case(
        rule="firewall-open",
        good=(changed(INGRESS, ("cidrIpv4",), "34.0.0.0/8"),),
        path=("cidrIpv4",),
        bad="128.0.0.0/1",
        message="ssh lets 128.0.0.0/1 in; name the networks that need to come in",
    ),
    Case(
        rule="firewall-open",
        good=(SECURITY_GROUP,),
        path=("ingress", 0, "cidrBlocks", 0),
        bad="0.0.0.0/0",
        message="nodes lets 0.0.0.0/0 in; name the networks that need to come in",
    ),
    Case(
        rule="firewall-open",
        good=(RULE,),
        path=("cidrBlocks", 0),
        bad="0.0.0.0/0",
        message="ssh lets 0.0.0.0/0 in; name the networks that need to come in",
    ),
    Case(
        rule="firewall-open",
        good=(INGRESS,),
        path=("cidrIpv6",),
        bad="::/0",
        message="ssh lets ::/0 in; name the networks that need to come in",
    ),
    Case(
        rule="secrets-encrypted",
        good=(EKS_CLUSTER,),
        path=("encryptionConfig",),
        bad=DROP,
        message="cluster gpu does not encrypt Kubernetes secrets with a KMS key; set "
        "encryptionConfig with resources: [secrets]",
    ),
    Case(
        rule="secrets-encrypted",
        good=(EKS_CLUSTER,),
        path=("encryptionConfig", "resources"),
        bad=[],
        message="cluster gpu does not encrypt Kubernetes secrets with a KMS key; set "
        "encryptionConfig with resources: [secrets]",
    ),
    Case(
        rule="secrets-encrypted",
        good=(GKE_CLUSTER,),
        path=("databaseEncryption", "state"),
        bad="DECRYPTED",
        message="cluster gpu does not encrypt Kubernetes secrets with a key of your own, which "
        "stack dev must; set databaseEncryption",
        config={"stacks": ["dev"]},
    ),
    Case(
        rule="secrets-encrypted",
        good=(changed(in_stack(GKE_CLUSTER, "other"), ("databaseEncryption",), {}), GKE_CLUSTER),
        path=("databaseEncryption",),
        bad=DROP,
        message="cluster gpu does not encrypt Kubernetes secrets with a key of your own, which "
        "stack dev must; set databaseEncryption",
        config={"stacks": ["dev"]},
    ),
    Case(
        rule="old-credentials",
        good=(GKE_CLUSTER,),
        path=("enableLegacyAbac",),
        bad=True,
        message="cluster gpu has legacy ABAC, which gives every service account broad rights; drop "
        "enableLegacyAbac",
    ),
    Case(
        rule="old-credentials",
        good=(GKE_CLUSTER,),
        path=("masterAuth", "clientCertificateConfig", "issueClientCertificate"),
        bad=True,
        message="cluster gpu issues a client certificate, which cannot be revoked; set "
        "issueClientCertificate to false",
    ),
    Case(
        rule="old-credentials",
        good=(EKS_CLUSTER,),
        path=("accessConfig", "authenticationMode"),
        bad="API_AND_CONFIG_MAP",
        message="cluster gpu takes users from the aws-auth ConfigMap; set "
        "accessConfig.authenticationMode to API and use access entries",
    ),
    Case(
        rule="old-credentials",
        good=(EKS_CLUSTER,),
        path=("accessConfig", "bootstrapClusterCreatorAdminPermissions"),
        bad=True,
        message="cluster gpu makes its creator an administrator for ever; set "
        "bootstrapClusterCreatorAdminPermissions to false and give an access entry",
    ),
    Case(
        rule="audit-log",
        good=(EKS_CLUSTER,),
        path=("enabledClusterLogTypes",),
        bad=["api"],
        message="cluster gpu keeps no audit log; add audit to enabledClusterLogTypes",
    ),
    Case(
        rule="upgrades",
        good=(GKE_CLUSTER,),
        path=("releaseChannel", "channel"),
        bad="UNSPECIFIED",
        message="cluster gpu is on no release channel; set releaseChannel.channel to RAPID, "
        "REGULAR, STABLE or EXTENDED",
    ),
    Case(
        rule="upgrades",
        good=(EKS_CLUSTER,),
        path=("upgradePolicy",),
        bad=DROP,
        message="cluster gpu goes into extended support by itself, at six times the price of a "
        "control plane; set upgradePolicy.supportType to STANDARD",
    ),
    Case(
        rule="upgrades",
        good=(T4_POOL,),
        path=("management", "autoUpgrade"),
        bad=False,
        message="pool t4 has autoUpgrade off; set management.autoUpgrade",
    ),
    Case(
        rule="upgrades",
        good=(changed(T4_POOL, ("management", "autoRepair"), True),),
        path=("management", "autoRepair"),
        bad=False,
        message="pool t4 has autoRepair off; set management.autoRepair",
    ),
    Case(
        rule="deletion-protection",
        good=(AUTOPILOT, in_stack(GKE_CLUSTER, "prod-eu")),
        path=("deletionProtection",),
        bad=False,
        message="cluster gpu has deletionProtection off, which stack prod-eu must have on; set it "
        "to true",
    ),
    Case(
        rule="deletion-protection",
        good=(in_stack(EKS_CLUSTER, "prod"),),
        path=("deletionProtection",),
        bad=DROP,
        message="cluster gpu has deletionProtection off, which stack prod must have on; set it to "
        "true",
    ),
    Case(
        rule="deletion-protection",
        good=(in_stack(GKE_CLUSTER, "live"),),
        path=("@protect",),
        bad=False,
        message="cluster gpu is not protected in Pulumi, so its pools would go before the cloud "
        "refuses to delete it; set the resource option protect",
        config={"stacks": ["live"]},
    ),
]
