"""b. The program's imports, compared with the SDK modules of the resources that it registers."""

from collections.abc import Sequence
from functools import partial

from quality.bench.measure import Comparison, Section, alternately
from quality.bench.processes import child
from quality.environments import values_of
from stacks.definition.files import SAMPLES
from stacks.definition.settings import flat

LIMIT = 1.3
POD_KINDS = ("pulumi_kubernetes.apps.v1", "pulumi_kubernetes.batch.v1")
PODS = "pulumi_kubernetes.core.v1"
"""The SDK itself loads it with a kind that has a pod template, for the types of its pods."""


def measure(chosen: Sequence[str], runs: int) -> Section:
    """Measures imports in a fresh process each time, with compiled files and a warm disk cache."""
    rows = []
    for stack in chosen or SAMPLES:
        said = child("modules", flat(values_of(stack)))
        needed = sdk_modules(said["types"])
        ours, theirs = alternately(
            runs, partial(child, "import", said["modules"]), partial(child, "import", needed)
        )
        rows.append(
            Comparison(
                what=f"{stack}: {len(said['modules'])} modules",
                unit="s",
                ours=ours["seconds"],
                theirs=theirs["seconds"],
                limit=LIMIT,
            )
        )
    return Section(
        letter="b",
        title="Imports",
        ours="all that the program loads",
        theirs="its SDK modules alone",
        rows=rows,
        notes=[
            "The SDK modules are those of the resource types that the environment registers; what "
            "the program loads is seen in a run of it, in that order. CPU time, disk cache warm."
        ],
    )


def sdk_modules(types: list[str]) -> list[str]:
    """The modules with these types' classes: `pulumi_gcp.container`, `pulumi_kubernetes.apps.v1`.

    A custom resource's type has no module.
    """
    names = ["pulumi"]
    for token in dict.fromkeys(types):
        package, module, _ = token.split(":")
        if package == "kubernetes":
            group, version = module.split("/")
            custom = "." in group and not group.endswith(".k8s.io")
            names.append(
                "pulumi_kubernetes.apiextensions"
                if custom
                else f"pulumi_kubernetes.{group.partition('.')[0]}.{version}"
            )
        elif package in ("gcp", "aws"):
            names.append(f"pulumi_{package}.{module.partition('/')[0].lower()}")
    if any(name in POD_KINDS for name in names):
        names.append(PODS)
    return list(dict.fromkeys(names))
