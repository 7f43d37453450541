"""The settings for which GKE replaces an Autopilot cluster; there are no node pools to replace."""

from components.gke.immutable import CONTROL_PLANE

CLUSTER = CONTROL_PLANE
