"""`gpu-cluster completion`."""

import click
from click.shell_completion import get_completion_class


@click.command(epilog="Example: gpu-cluster completion bash > ~/.gpu-cluster-completion.bash")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and stacks in SHELL.

    bash: source the file in ~/.bashrc. zsh: save it as _gpu-cluster in a folder of fpath. fish:
    save it as ~/.config/fish/completions/gpu-cluster.fish.
    """
    complete_class = get_completion_class(shell)
    assert complete_class is not None
    root = context.find_root()
    print(complete_class(root.command, {}, root.info_name or "", "_GPU_CLUSTER_COMPLETE").source())
