"""`gpu-cluster new`."""

import sys
from pathlib import Path
from typing import Any

import click

from gpu_cluster.cli.options import STACK, json_option, stack_argument
from gpu_cluster.cli.output import say
from gpu_cluster.components.platforms import PLATFORMS, WRITTEN
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode


class _Pair(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        key, equals, rest = str(value).partition("=")
        if not key or not equals or not rest:
            self.fail(f"{value!r} is not a name and a value; give it as name=value", param, ctx)
        return key, rest


class _List(click.ParamType[tuple[str, ...]]):
    """`one,another`."""

    name = "NAME,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return tuple(item.strip() for item in str(value).split(",") if item.strip())


@click.command(
    epilog="Example: gpu-cluster new staging --platform gke --project my-project-id "
    "--location europe-west4-a --gpu l4 --network office=198.51.100.0/24"
)
@stack_argument
@click.option("--platform", help=f"{', '.join(WRITTEN)}.")
@click.option("--existing", help="The name of an existing cluster, on gke or eks.")
@click.option("--scaler", help="What starts GPU nodes, such as karpenter on eks; cluster.scaler.")
@click.option("--project", help="The Google Cloud project's ID.")
@click.option("--admin", metavar="ARN", help="The IAM role or user that runs Pulumi, on EKS.")
@click.option("--location", help="A region, or on gke a zone.")
@click.option("--zone", "zones", multiple=True, help="Zone of an EKS cluster; give two or three.")
@click.option("--gpu", help="Such as t4 or l4; gpu-cluster offers lists all.")
@click.option("--max-nodes", type=click.IntRange(1), help="The maximum number of GPU nodes.")
@click.option(
    "--network", "networks", multiple=True, type=_Pair(), metavar="NAME=CIDR",
    help="A network that may reach the control plane; repeatable.",
)  # fmt: skip
@click.option("--private-endpoint", is_flag=True, help="The control plane has no public address.")
@click.option(
    "--subnet-id",
    "subnet_ids",
    multiple=True,
    help="Private subnet of an existing VPC, on EKS; repeatable, in at least two zones.",
)
@click.option(
    "--security-group-id",
    "security_group_ids",
    multiple=True,
    help="Security group of the nodes of an existing EKS cluster; repeatable.",
)
@click.option(
    "--kubernetes-version", help="The Kubernetes version of an existing cluster, such as 1.35."
)
@click.option("--vpc", help="The VPC network of an existing subnetwork, on GKE.")
@click.option("--subnetwork", help="An existing subnetwork, on GKE.")
@click.option("--pods-range", help="The subnetwork's secondary range for pods.")
@click.option("--services-range", help="The subnetwork's secondary range for services.")
@click.option("--host-project", help="The Shared VPC project that has the subnetwork.")
@click.option("--name", help="The cluster's name; default: gpu-STACK.")
@click.option("--node-label", type=_Pair(), metavar="KEY=VALUE", help="Of existing GPU nodes.")
@click.option("--gpus-per-node", type=click.IntRange(1, 16), help="Of existing GPU nodes.")
@click.option("--yes", is_flag=True, help="Do not ask; use defaults for what is not given.")
@json_option
def new(stack: str, yes: bool, as_json: bool, **given: Any) -> ExitCode:
    """Write the file of a new environment, Pulumi.STACK.yaml.

    Asks for what no option sets, if there is a terminal. Writes nothing that the program would
    refuse, and overwrites no file.
    """
    from gpu_cluster.stacks.environments import new_stack

    def ask() -> Answer:
        for option in click.get_current_context().command.params:
            value = given.get(str(option.name))
            if value == "" or (isinstance(value, tuple) and "" in value):
                raise CheckError(f"{option.opts[0]}: is empty; give a value, or drop the option")
        choices = _choices(stack, given, asking=not yes and sys.stdin.isatty(), examples=yes)
        file, config = new_stack.write_stack(stack, choices)
        words = f"wrote {file.name}\nnext: gpu-cluster rehearse {stack}"
        if (examples := file.read_text().count("# yours instead")) and not as_json:
            lines = "line that says" if examples == 1 else f"{examples} lines that say"
            words += f"\nbefore the real cloud: change the {lines} `yours instead of this example`"
        return ExitCode.OK, {"file": file.name, "config": config}, words

    return say("new", ask, as_json=as_json)


@click.command(epilog="Example: gpu-cluster init gpus --platform eks")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", default="", help="The project's name; default: the folder's.")
@click.option("--stack", type=STACK, default="dev", show_default=True, help="The first stack.")
@click.option("--platform", type=click.Choice(WRITTEN), default="gke", show_default=True)
@click.option(
    "--wheel", default="",
    help="Path or URL of this package's wheel; default: where the installed one came from.",
)  # fmt: skip
@json_option
def init(folder: Path, as_json: bool, **given: str) -> ExitCode:
    """Write a Pulumi project that uses this package into FOLDER.

    It has the program, a stack file with examples, the policies, and the workflow that previews
    pull requests. Overwrites no file.
    """
    from gpu_cluster.stacks.environments import project

    def ask() -> Answer:
        files = project.init(folder, **given)
        change = "" if folder.resolve() == Path.cwd() else f"cd {folder}, then "
        words = (
            f"wrote {', '.join(files)}\nnext: {change}gpu-cluster rehearse {given['stack']}\n"
            f"before the real cloud: change the lines of Pulumi.{given['stack']}.yaml that say "
            "`yours instead of this example`"
        )
        return ExitCode.OK, {"folder": str(folder), "files": files}, words

    return say("init", ask, as_json=as_json)


def _choices(stack: str, given: dict[str, Any], *, asking: bool, examples: bool) -> Any:
    """The values of the options, and the user's answers, each of which is checked at once;
    `examples`: whether a value that is not given may be an example."""
    from gpu_cluster.stacks.environments import new_stack

    missing: list[str] = []
    options = {str(option.name): option.opts[0]
               for option in click.get_current_context().command.params}  # fmt: skip

    def answered(key: str, question: str, default: Any, kind: Any = None) -> None:
        if given[key] in (None, ()) and asking:
            convert = click.types.convert_type(kind, default)

            def checked(text: Any) -> Any:
                answer = convert(text)
                # An example that the user accepts counts as not given, so that the file marks it.
                answer = None if answer == convert(default) else answer
                choices = _chosen(given | {key: answer})
                if refused := new_stack.answer_refusal(stack, choices, options[key]):
                    raise click.UsageError(refused)
                return answer

            given[key] = click.prompt(question, default=default, value_proc=checked, err=True)
        elif given[key] in (None, ()) and not examples:
            missing.append(key)

    answered("platform", "platform", "gke", click.Choice(WRITTEN))
    if given["existing"] and not given["platform"] and not asking:
        added = " or ".join(name for name in WRITTEN if f"{name}-existing" in PLATFORMS)
        raise CheckError(f"--platform: is missing; with --existing, give {added}")
    platform = given["platform"] or "gke"
    name = new_stack.Choices(platform=platform, existing=given["existing"] or "").row
    platform_row = PLATFORMS.get(name)
    environment = new_stack.environment_of(name) if platform_row else None
    for entry in environment.QUESTIONS if environment else ():
        kind = _Pair() if entry.pair else _List() if entry.many else type(entry.default)
        answered(entry.key, entry.text, entry.default, kind)
    if platform_row is None or platform_row.cloud:
        answered("location", "location", environment.LOCATION if environment else None)
        answered("gpu", "GPU (gpu-cluster offers lists all)", new_stack.GPU)
        if not given["private_endpoint"] and not given["existing"]:
            answered("networks", "network that may reach the control plane, as name=CIDR",
                     "=".join(*new_stack.NETWORKS.items()), _Pair())  # fmt: skip
    if missing:
        names = ", ".join(option for key, option in options.items() if key in missing)
        raise CheckError(
            f"there is no terminal to ask for {names}; give them, or --yes to write examples"
        )
    return _chosen(given)


def _chosen(given: dict[str, Any]) -> Any:
    from gpu_cluster.components.schema.decode import camel
    from gpu_cluster.stacks.environments import new_stack

    own = dict(given)
    own["network"] = {
        camel(key): value
        for key in ("host_project", "vpc", "subnetwork", "pods_range", "services_range")
        if (value := own.pop(key))
    }
    networks = own["networks"]
    if networks:
        own["networks"] = dict(networks if isinstance(networks[0], tuple) else [networks])
    chosen = {key: value for key, value in own.items() if value not in (None, ())}
    return new_stack.Choices(**{"platform": "gke", **chosen})
