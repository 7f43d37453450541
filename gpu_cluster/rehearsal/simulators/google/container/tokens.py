"""Names of GKE's resources in the cloud's state."""

CLUSTER = "container.clusters"
NODE_POOL = "container.nodePools"
DEFAULT_POOL = "default-pool"
"""The pool that GKE creates for a cluster without requested pools."""
