"""The effect of changing a setting on GKE, if it depends on the values or on other settings.

All other rules are next to their fields, as `OnChange`. `make inject-faults` changes every setting;
it fails if a replacement has no rule.
"""

from ipaddress import IPv4Network

from ..schema.on_change import ChangeRules, Verdict


def unless_grown(old: str, new: str) -> Verdict:
    """A subnetwork's range can grow in place, but can neither shrink nor move.

    https://cloud.google.com/vpc/docs/create-modify-vpc-networks#expand-subnet
    """
    return None if IPv4Network(old).subnet_of(IPv4Network(new)) else "cluster"


POOL: ChangeRules = {
    # If it is not set, osImage, driver and installerImage decide it.
    "effective_secure_boot": "GPU pool",
    # With `queued`, each job sets it.
    "pool_run_duration_seconds": "GPU pool",
    # If it is not set, machineType decides it.
    "pool_ssd_count": "GPU pool",
}
"""Rules for values that several settings of a pool decide together."""
