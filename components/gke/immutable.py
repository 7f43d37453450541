"""What a change of a setting means on GKE, where it depends on the values or on other settings.

Every other rule stands with its field, as `OnChange`. `make inject-faults` makes a change of every
setting; a replacement for which there is no rule fails it.
"""

from ipaddress import IPv4Network

from ..on_change import ChangeRules, Verdict


def unless_grown(old: str, new: str) -> Verdict:
    """A subnetwork's range grows in place, and can neither shrink nor move.

    https://cloud.google.com/vpc/docs/create-modify-vpc-networks#expand-subnet
    """
    return None if IPv4Network(old).subnet_of(IPv4Network(new)) else "cluster"


POOL: ChangeRules = {
    # osImage, driver and installerImage decide it where it is not given.
    "effective_secure_boot": "GPU pool",
    # With `queued`, each job says it.
    "pool_run_duration_seconds": "GPU pool",
}
"""What several settings of a pool decide together."""
