"""Loads all extensions of moto."""

import pkgutil
from importlib import import_module
from pathlib import Path


def load() -> None:
    """Imports the modules of this folder, which register their extensions."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        import_module(f"gpu_cluster.rehearsal.simulators.aws.{module.name}")
