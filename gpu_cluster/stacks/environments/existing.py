"""A new environment on an existing cluster."""

from gpu_cluster.stacks.environments.new_stack import NODE_LABEL, Choices, Parts, Question, scalar

LOCATION = ""
QUESTIONS = (
    Question("node_label", "label of the GPU nodes", "=".join(NODE_LABEL), pair=True),
    Question("gpus_per_node", "GPUs of each node", 1),
)


def provider(choices: Choices) -> list[str]:
    """Implements `Environment`."""
    return []


def parts(choices: Choices) -> Parts:
    """Implements `Environment`."""
    key, value = choices.node_label or NODE_LABEL
    return (
        "An existing cluster, reached by the current kubeconfig ($KUBECONFIG)",
        [],
        [
            f"nodeSelector: {{ {scalar(key)}: {scalar(value)} }} # on GPU nodes, and no others",
            f"gpusPerNode: {choices.gpus_per_node or 1}",
        ],
        1,
    )
