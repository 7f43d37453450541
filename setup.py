"""The packages of the wheel: `gpu_cluster`, whose folder `components` is a link in the checkout."""

from setuptools import find_namespace_packages, setup

_COMPONENTS = "gpu_cluster.components"
_COMPILED = "*__pycache__*"

setup(
    package_dir={_COMPONENTS: "components"},
    packages=[
        *find_namespace_packages(include=["gpu_cluster*"], exclude=[f"{_COMPONENTS}*", _COMPILED]),
        _COMPONENTS,
        *(f"{_COMPONENTS}.{name}" for name in find_namespace_packages("components", [_COMPILED])),
    ],
)
