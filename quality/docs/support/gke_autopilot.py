"""GKE Autopilot in the support matrix."""

DRIVERS = (("GKE's choice", "GKE", {"accelerator": "nvidia-tesla-t4"}),)
SHARING = (("", {"accelerator": "nvidia-tesla-a100"}),)
PLUGIN = "GKE"
LOCATED = ()
