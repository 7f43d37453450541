"""A bill, and the difference of two, as text."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH
from gpu_cluster.stacks.cost.bill import TIMES, Bill, Item, Purchase, Time, changes
from gpu_cluster.stacks.table import table

UNKNOWN = "unknown"
_PER = (1, HOURS_PER_MONTH)
_SHARES: tuple[tuple[Purchase, int], ...] = (
    ("on-demand", 1), ("on-demand", HOURS_PER_MONTH), ("spot", 1),
)  # fmt: skip
"""The columns with a GPU's price: the table has to fit into 80 columns."""


def bill_text(bill: Bill) -> str:
    """The bill on demand and with Spot nodes, the configured cost, and what is not known."""
    if not bill.items:
        return "\n".join(bill.notes)
    lines = [table(["ITEM", "WHAT"], [[item.name, item.what] for item in bill.items]), ""]
    lines += ["GPU nodes on demand", _table(bill, "on-demand", bill.items), ""]
    if spot := [item for item in bill.items if item.gpus and not item.reserved]:
        lines += ["GPU nodes as Spot; everything else unchanged", _table(bill, "spot", spot), ""]
    if pools := [item for item in bill.items if item.gpus]:
        lines += ["one nvidia.com/gpu, on a node whose GPUs are all in use", _shares(pools), ""]
    for time in TIMES:
        hour, month = (_sum(bill, "configured", time, per) for per in _PER)
        lines.append(f"as configured, {time}: {hour} an hour, {month} a month")
    if missing := bill.total("configured", "full").missing:
        lines.append(f"unknown, and therefore not in the sums: {', '.join(missing)}")
    if any(part.uncertain for item in bill.items for part in item.parts):
        lines.append("~ from general knowledge, not from a price list")
    lines += [f"additionally billed by use: {usage.text()}" for usage in bill.metered]
    return "\n".join([*lines, *bill.notes])


def compared(before: Bill, after: Bill) -> str:
    """Each item with a changed cost, and the sums, in dollars per month as configured."""
    changed = changes(before, after)
    if not changed:
        return "no cost changes"
    tables = []
    for time in TIMES:
        rows = [
            [item.name, _known(item.before[time]), _known(item.after[time]), signed(item.by(time))]
            for item in changed
        ]
        old, new = before.total("configured", time), after.total("configured", time)
        change = None if old.missing or new.missing else new.month - old.month
        sums = (_sum(bill, "configured", time, HOURS_PER_MONTH) for bill in (before, after))
        head = [f"A MONTH, {time.upper()}", "BEFORE", "AFTER", "CHANGE"]
        tables.append(_money_table(head, [*rows, ["in all", *sums, signed(change)]], words=1))
    return "\n\n".join(tables)


def csv_rows(items: Sequence[Mapping[str, Any]]) -> str:
    """The items of a bill's document for a spreadsheet, in dollars per hour as configured."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(
        ["item", "what", "bought", *(f"{time} {of}" for of in ("pieces", "$/h") for time in TIMES)]
    )
    for item in items:
        numbers = [item["pieces"][time] for time in TIMES]
        numbers += [item["hourly"]["configured"][time] for time in TIMES]
        shown = [UNKNOWN if number is None else number for number in numbers]
        write([item["name"], item["what"], item["bought"], *shown])
    return out.getvalue().rstrip()


def money(dollars: float) -> str:
    """`$1,234.50`."""
    return f"${dollars:,.2f}"


def _at(dollars: float, per: int) -> str:
    """Hourly amounts have four decimals: with two, small amounts would disappear."""
    return f"${dollars:,.4f}" if per == 1 else money(dollars * per)


def signed(dollars: float | None) -> str:
    """A change with its sign."""
    if dollars is None:
        return UNKNOWN
    return "0" if round(dollars, 2) == 0 else f"{'+' if dollars > 0 else '-'}{money(abs(dollars))}"


def _table(bill: Bill, purchase: Purchase, items: Sequence[Item]) -> str:
    rows = [
        [
            item.name,
            _range(item),
            *(_cell(item, purchase, time, per) for time in TIMES for per in _PER),
        ]
        for item in items
    ]
    totals = {time: bill.total(purchase, time) for time in TIMES}
    sums = [_at(totals[time].hour, per) for time in TIMES for per in _PER]
    partly = any(total.missing for total in totals.values())
    head = ["ITEM", "PIECES", "IDLE/HOUR", "IDLE/MONTH", "FULL/HOUR", "FULL/MONTH"]
    in_all = "in all, at least" if partly else "in all"
    return _money_table(head, [*rows, [in_all, "", *sums]], words=2)


def _shares(pools: Sequence[Item]) -> str:
    rows = [
        [
            item.name,
            item.pod_gpu.what,
            *(
                "-"
                if item.reserved and purchase == "spot"
                else UNKNOWN
                if (cost := item.per_gpu(purchase)) is None
                else _at(cost, per)
                for purchase, per in _SHARES
            ),
        ]
        for item in pools
        if item.pod_gpu
    ]
    head = ["ITEM", "A POD HAS", "HOUR", "MONTH", "SPOT/HOUR"]
    return _money_table(head, rows, words=2)


def _money_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> str:
    """The first columns contain text, the others money, which is right-aligned."""
    widths = [max(len(cells[at]) for cells in [head, *rows]) for at in range(len(head))]
    padded = [
        [cell if at < words else cell.rjust(widths[at]) for at, cell in enumerate(cells)]
        for cells in [head, *rows]
    ]
    return table(padded[0], padded[1:])


def _cell(item: Item, purchase: Purchase, time: Time, per: int) -> str:
    cost = item.cost(purchase, time)
    if cost is None:
        return UNKNOWN
    mark = "~" if cost and any(part.uncertain for part in item.parts) else ""
    mark = "at least " + mark if item.missing(purchase, time) else mark
    return f"{mark}{_at(cost, per)}"


def _sum(bill: Bill, purchase: Purchase, time: Time, per: int) -> str:
    total = bill.total(purchase, time)
    return f"{'at least ' if total.missing else ''}{_at(total.hour, per)}"


def _known(dollars: float | None) -> str:
    return UNKNOWN if dollars is None else money(dollars)


def _range(item: Item) -> str:
    if item.idle is None and item.full is None:
        return UNKNOWN
    return f"{_pieces(item.idle)} to {_pieces(item.full)}"


def _pieces(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:.3g}"
