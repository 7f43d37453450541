"""The positions of a rehearsed cloud's machines in its network, from `blocks` in an inventory."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from components.decode import unknown
from rehearsal.simulators.inventory import INVENTORIES, inventory, wrong

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
            raise wrong(stack, at, f"is not {{ {machine}: TYPE, nodes: [2, 2] }}; write it so")
        name, nodes = row[machine], row["nodes"]
        if name not in located:
            raise wrong(
                stack, f"{at}.{machine}", f"{name!r} is in no block; {unknown(name, located)}"
            )
        if (
            not isinstance(nodes, list)
            or not nodes
            or not all(type(each) is int and each > 0 for each in nodes)
        ):
            raise wrong(stack, f"{at}.nodes", f"{nodes!r} is not a list of numbers above 0")
        result[name] = nodes
    return result
