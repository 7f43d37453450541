"""GKE Autopilot."""
