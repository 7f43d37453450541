"""The effect of a setting, in the annotation of its field: where it is sent.

    disk_type: Annotated[str | None, Sent("NodePool nodeConfig.diskType")] = None

Nothing that runs in a stack reads it: tests compare it with what the program declares. Like the
args classes, this module does without an SDK.
"""


class Sent:
    """The resource inputs in which the setting appears, each as `TYPE path`.

    TYPE is the name of the resource's class, `PodSpec` for the pods of any resource that has some,
    or `ObjectMeta` for the metadata of any Kubernetes object. `path` is in camelCase, with `[]` for
    the elements of a list, or a resource option in parentheses. An input covers everything below
    it, a type without a path the whole resource. If the input is another resource's output, name
    the block around it: tests do not know the output's value.
    """

    def __init__(self, *inputs: str) -> None:
        self.inputs = inputs


class Silent:
    """The setting does not appear in any resource's inputs, for this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
