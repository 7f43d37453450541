"""A new environment on EKS."""

from gpu_cluster.stacks.environments.new_stack import (
    ADMIN,
    MAX_NODES,
    Choices,
    Parts,
    Question,
    example,
    offer_for,
    reachable,
    scalar,
)

LOCATION = "us-east-1"
QUESTIONS = (Question("admin", "ARN of the IAM role that runs Pulumi", ADMIN),)


def provider(choices: Choices) -> list[str]:
    """Implements `Environment`."""
    return [f"  aws:region: {scalar(choices.location or LOCATION)}"]


def parts(choices: Choices) -> Parts:
    """Implements `Environment`."""
    region = choices.location or LOCATION
    offer = offer_for(choices, "aws", region)
    subnets = ", ".join(map(scalar, choices.subnet_ids))
    zones = list(choices.zones) or [f"{region}a", f"{region}b"]
    note = (
        ""
        if choices.zones
        else f" # aws ec2 describe-availability-zones --region {region} lists yours"
    )
    place = "subnetIds" if subnets else "zones"
    network = [f"  subnetIds: [{subnets}] # private, in two zones at least"] if subnets else []
    if choices.zones or not subnets:
        network.append(f"  zones: [{', '.join(map(scalar, zones))}]{note}")
    return (
        f"EKS with {offer.gpu} GPUs, which cost nothing until a pod needs them",
        [
            "admins: # include the identity that runs Pulumi",
            f"  - {scalar(choices.admin or ADMIN)}{example(choices.admin)}",
            *reachable(choices),
            "network:",
            *network,
        ],
        [
            f"instanceTypes: [{offer.machine}]",
            f"maxNodes: {choices.max_nodes or MAX_NODES} # from 0, as pods need them",
            f"{place}: [{scalar((choices.subnet_ids or zones)[0])}] # one zone for each pool",
        ],
        1,
    )
