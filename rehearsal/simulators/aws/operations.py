"""All that is added to moto."""

from importlib import import_module

_MODULES = (
    "access",
    "addons",
    "clusters",
    "eks",
    "iam_rules",
    "key_rules",
    "network_rules",
    "node_groups",
    "pod_identity",
    "quotas",
    "reservations",
    "scaling",
)


def load() -> None:
    """Imports the modules, which register what they add."""
    for name in _MODULES:
        import_module(f"rehearsal.simulators.aws.{name}")
