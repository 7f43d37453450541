"""The positions of a rehearsed cloud's machines in its network, from `blocks` in an inventory."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from gpu_cluster.components.schema.refusal import shown, unknown
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES, inventory, wrong

Sizes = Mapping[str, Sequence[int]]
"""Machine type -> how many machines each block has, in the order in which they are used."""


def sizes(
    stack: str, folder: Path = INVENTORIES, *, located: Collection[str], machine: str
) -> Sizes:
    """The inventory's `blocks`. `located`: machine types whose position the cloud reveals;
    `machine`: the key of the machine type. Raises StackError for an invalid row."""
    found = inventory(stack, folder)
    rows = found.get("blocks", []) if isinstance(found, dict) else []
    result: dict[str, Sequence[int]] = {}
    for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
        at = f".blocks[{number}]"
        if not isinstance(row, dict) or row.keys() != {machine, "nodes"}:
            raise wrong(
                stack, at, f"{shown(row)} does not describe blocks; write them as {{ {machine}: "
                "TYPE, nodes: [2, 4] }, with the number of machines in each block"
            )  # fmt: skip
        name, nodes = row[machine], row["nodes"]
        if name not in [*located]:
            raise wrong(
                stack, f"{at}.{machine}", f"{shown(name)} is not a machine type whose position "
                f"the cloud shows; {unknown(str(name), located)}"
            )  # fmt: skip
        if (
            not isinstance(nodes, list)
            or not nodes
            or not all(type(node) is int and node > 0 for node in nodes)
        ):
            raise wrong(
                stack, f"{at}.nodes", f"{shown(nodes)} is not a list of numbers of machines; "
                "allowed: 1 or more for each block; write it as [2, 4]"
            )  # fmt: skip
        result[name] = nodes
    return result
