"""The commands of `python -m quality`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu_cluster.cli.options import STACK, json_option, plugins_option
from gpu_cluster.cli.output import aside, say
from gpu_cluster.cli.rehearse import linux_only
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode

if TYPE_CHECKING:
    from gpu_cluster.rehearsal.engine.provider_plugins import Choice


@click.command(
    epilog="Example: python -m quality inject-faults dev-errors train-changes --minutes 20"
)
@click.argument("work", nargs=-1, metavar="[STACK-WORK]...")
@click.option(
    "--minutes", type=float, default=45.0, show_default=True, help="Begin no fault after that."
)
@click.option("--workers", type=int, default=4, show_default=True, help="Sandboxes at a time.")
@plugins_option
@json_option
@linux_only
def inject_faults(
    work: Sequence[str], minutes: float, workers: int, plugins: "Choice", as_json: bool
) -> ExitCode:
    """Inject every fault at every operation, and make every change, in every environment.

    WORK is kills, errors or changes of a stack, such as dev-kills; left out, all of it. What is not
    named stays as the last run left it. Exit code 1: something was lost.
    """
    from quality.faults.inject import FILE, inject, works

    known = works()
    if unknown := sorted(set(work) - set(known)):
        raise click.UsageError(
            f"{', '.join(unknown)}: there is no such work; allowed: {', '.join(known)}"
        )
    with aside(as_json=as_json):
        code = inject(work, minutes=minutes, workers=workers, plugins=plugins)
    if as_json:
        print(FILE.read_text(), end="")
    return code


@click.command(epilog="Example: python -m quality state-fixtures v0.2.0 --stack dev")
@click.argument("tag")
@click.option("--stack", "stacks", type=STACK, multiple=True, help="Default: every sample.")
@linux_only
def state_fixtures(tag: str, stacks: Sequence[str]) -> ExitCode:
    """Write the states that version TAG makes to tests/fixtures.

    Later versions must preview them without a replacement.
    """
    from quality.faults.state_fixtures import write_states

    return write_states(tag, stacks)


@click.command(epilog="Example: python -m quality compare-plugins gcp --cases 600")
@click.argument("package", type=click.Choice(["gcp", "kubernetes"]))
@click.option(
    "--official",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="The official plugin's program; left out, the one that is installed.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=60),
    metavar="N",
    help="Ask that many, spread over all; left out, every one, which takes up to half an hour.",
)
@click.option("--docs", is_flag=True, help="Write the page of the comparison.")
@json_option
@linux_only
def compare_plugins(
    package: str, official: Path | None, cases: int | None, docs: bool, as_json: bool
) -> ExitCode:  # fmt: skip
    """Compare the offline plugin of PACKAGE with the official one, over generated changes.

    Exit code 1: too many verdicts differ, or one for which nobody has said why.
    """
    from gpu_cluster.rehearsal.plugins.official import first, installed
    from quality.fidelity.fidelity import compare_plugins

    def ask() -> Answer:
        program = official or first(package)
        if program is None:
            raise CheckError(
                f"{package}: {installed(package).why}; name an official plugin with --official"
            )
        with aside(as_json=as_json):
            return compare_plugins(package, program, most=cases, docs=docs)

    return say("compare-plugins", ask, as_json=as_json)


@click.command(epilog="Example: python -m quality docs --measured result.json")
@click.option(
    "--measured",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="What test-gpus --json printed, or the log of the test's pod: add it to the GPU table.",
)
@click.option(
    "--figures", is_flag=True, help="Also write what the last rehearsal and tests measured."
)
def docs(measured: Sequence[Path], figures: bool) -> None:
    """Write the generated pages into docs/."""
    from quality.docs import gpus, write

    gpus.write_measurements(measured)
    write.write_pages()
    if figures:
        write.write_figures()


@click.command(epilog="Example: python -m quality clouds --plugin aws")
@click.option(
    "--plugin",
    type=click.Choice(sorted(cloud.package for cloud in CLOUDS.values())),
    help="Ask the official plugin that is installed which inputs replace a resource.",
)
@click.option(
    "--definitions",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="Read the definitions of Google's provider in this checkout of magic-modules.",
)
@click.option(
    "--autoscaler",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="Read GKE's machine families in this checkout of GoogleCloudPlatform/cluster-autoscaler.",
)
def clouds(plugin: str | None, definitions: Path | None, autoscaler: Path | None) -> None:
    """Read again what others say of resource types, and write it to clouds/generated; with
    --autoscaler, of machine families, to gpu_cluster/rehearsal/simulators/google/container.

    Without an option: the models of AWS's APIs that are installed. Prints what changed.
    """
    from quality.clouds import generate, machine_families

    if autoscaler:
        changes = machine_families.write_families(autoscaler)
    elif plugin:
        changes = generate.of_plugin(plugin)
    elif definitions:
        changes = generate.of_definitions(definitions)
    else:
        changes = generate.models()
    print("\n".join(changes) or "nothing has changed")


@click.command(epilog="Example: python -m quality zones v9 vms.csv")
@click.argument("version")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def zones(version: str, file: Path) -> None:
    """Write the zones of Google Cloud's accelerators and machine types into the catalog.

    FILE is VERSION of the source that components/catalog/gke_zones.json names. Prints what changed.
    """
    from quality.zones import update_zones

    print("\n".join(update_zones(version, file)) or "nothing has changed")


@click.command(epilog="Example: python -m quality release dist")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def release(folder: Path) -> None:
    """Build what is published of this version into an empty folder.

    The wheel, the version's section of the changelog, and the checksums of both.
    """
    from quality.release import release

    for file in release(folder):
        print(file)


@click.command(epilog="Example: python -m quality explain gke NodePool nodeConfig.loggingVariant")
@click.argument("platform", type=click.Choice(list(PLATFORMS)))
@click.argument("kind", metavar="TYPE")
@click.argument("path", metavar="INPUT")
def explain(platform: str, kind: str, path: str) -> None:
    """Say what a contributor has to know of an input before a setting can send it.

    TYPE is the class of a resource, such as NodePool, or the kind of a scaler's object, such as
    EC2NodeClass. INPUT is its path in camelCase, with [] for the elements of a list. Ends with the
    field to paste.
    """
    from quality.explain import explain

    print(explain(platform, kind, path))


@click.command(epilog="Example: python -m quality change --no-rehearsal")
@click.option("--since", metavar="REVISION", help="Default: where the branch left main.")
@click.option("--rehearsal/--no-rehearsal", default=True, help="Rehearse settings that changed.")
@linux_only
def change(since: str | None, rehearsal: bool) -> ExitCode:
    """Check what differs from main: write the generated files again, run the tests that concern it,
    and rehearse the samples with the settings whose fields changed.

    Prints a line for each step, and what is wrong. Exit code 1: something is.
    """
    from quality.change import base, check_change

    return ExitCode.OK if check_change(since or base(), rehearse=rehearsal) else ExitCode.FINDING


@click.command(epilog="Example: python -m quality new-block notebooks")
@click.argument("name")
def new_block(name: str) -> None:
    """Copy the example of a block of workloads under the name of a new one, such as notebooks.

    Its args, their reader, the component, a row in the table of blocks, and a test.
    """
    from quality.new_block import add_block

    print(add_block(name))
