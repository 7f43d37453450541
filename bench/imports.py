"""c. What the program imports, against the SDK modules of the resources that it registers."""

from bench.environments import flat, stacks, values_of
from bench.measure import Comparison, Section, alternately
from bench.processes import child

LIMIT = 1.3


def measure(chosen: list[str], runs: int) -> Section:
    """Imports in a fresh process each time, with compiled files and a warm disk cache."""
    rows = []
    for stack in chosen or stacks():
        said = child("modules", flat(values_of(stack)))
        needed = sdk_modules(said["types"])
        ours, theirs = alternately(
            runs,
            lambda names=said["modules"]: child("import", names),
            lambda names=needed: child("import", names),
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
        letter="c",
        title="Imports",
        ours="all that the program loads",
        theirs="its SDK modules alone",
        rows=rows,
        notes=[
            "The SDK modules are those of the resource types that the environment registers; what "
            "the program loads is seen in a run of it, in that order.",
        ],
    )


def sdk_modules(types: list[str]) -> list[str]:
    """The modules with these types' classes: `pulumi_gcp.container`, `pulumi_kubernetes.apps.v1`.

    The type of a custom resource has no module of its own.
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
    return list(dict.fromkeys(names))
