"""The packages of the wheel: `components/`, under the name `gpu_cluster`."""

from setuptools import find_namespace_packages, setup

FOUND = find_namespace_packages("components", exclude=["*__pycache__*"])

setup(
    package_dir={"gpu_cluster": "components"},
    packages=["gpu_cluster", *(f"gpu_cluster.{name}" for name in FOUND)],
)
