"""GKE's API, as far as stacks use it."""
