"""GKE Standard, as benchmarks and fault injection measure it."""

from components.catalog.clouds import GOOGLE

SCALE = 4.0
KILL_PARTS = 1
ORDER = ("gcp:compute/network:Network", "gcp:compute/subnetwork:Subnetwork", GOOGLE.cluster)
