"""The cost of a stack per hour and month, at minimum and maximum size, from list prices."""

import subprocess
from collections.abc import Mapping
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from gpu_cluster.components.catalog.prices import priced_on
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.cost.bill import Bill, Prices, changes
from gpu_cluster.stacks.cost.cost_text import bill_text, compared, money
from gpu_cluster.stacks.definition.settings import NOWHERE, ROOT, config_in, config_of, settings_of
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode


def answer(
    stack: str, *, compare: str | None = None, ceiling: float | None = None, root: Path = ROOT
) -> Answer:
    """Exit code, document and text. Raises CheckError if the stack has nothing to price."""
    bill = bill_at(stack, config_of(stack, root))
    # Uncertain prices come from no price list, and are marked.
    note = priced_on(
        part.source for item in bill.items for part in item.parts if not part.uncertain
    )
    document = {"stack": stack, "prices": note, **bill.document()}
    head = f"{stack}: list {note}, in US dollars" if bill.items else f"{stack}:"
    text = [head, *filter(None, [bill.other_region])]
    text += ["", bill_text(bill)]
    if compare is not None:
        config = config_at(stack, compare, root)
        before = Bill() if config is None else bill_at(stack, config, at=compare)
        document["compared"] = {
            "revision": compare,
            "existed": config is not None,
            "before": before.document()["totals"],
            "changes": [change.document() for change in changes(before, bill)],
        }
        what = " (in which this stack does not exist)" if config is None else ""
        text += ["", f"changes since {compare}{what}:", compared(before, bill)]
    code, verdict = judged(bill, ceiling)
    return code, document, "\n".join([*text, *([verdict] if verdict else [])])


def bill_at(stack: str, config: Mapping[str, Any], *, at: str = "") -> Bill:
    """The bill for a stack's config. Raises CheckError with the program's error if it is
    invalid."""
    try:
        settings = settings_of(stack, config, kubeconfig=NOWHERE)
    except CheckError as error:
        raise CheckError(f"{at}: {error}" if at else str(error)) from None
    if PLATFORMS[settings.platform].cloud is None:
        return Bill(notes=["an existing cluster is billed to somebody else"])
    # Only the module of the stack's own cloud is imported.
    prices = cast(Prices, import_module(PLATFORMS[settings.platform].cost))
    return prices.bill(settings, date.today())


def config_at(stack: str, revision: str, root: Path = ROOT) -> dict[str, Any] | None:
    """The stack's config in a git revision; None if the revision does not contain the stack."""
    file = f"Pulumi.{stack}.yaml"
    if revision.startswith("-") or _git(root, "rev-parse", "--verify", f"{revision}^{{commit}}"):
        raise CheckError(
            f"{revision}: this repository has no such revision; fetch it, or name another"
        )
    done = subprocess.run(
        ["git", "-C", str(root), "show", f"{revision}:./{file}"], capture_output=True
    )
    return None if done.returncode else config_in(done.stdout, f"{revision}:{file}")


def judged(bill: Bill, ceiling: float | None) -> tuple[ExitCode, str]:
    """Exit code and a line, if there is a ceiling: dollars per month with every pool full."""
    if ceiling is None:
        return ExitCode.OK, ""
    total = bill.total("configured", "full")
    if total.month > ceiling:
        return ExitCode.FINDING, (
            f"at its maximum size, the stack costs {money(total.month)} a month, above the "
            f"ceiling of {money(ceiling)}: lower maxNodes, or raise the ceiling"
        )
    if total.missing:
        return ExitCode.UNKNOWN, (
            f"it is not known whether the stack stays below {money(ceiling)} a month: no price is "
            f"known for {', '.join(total.missing)}"
        )
    return ExitCode.OK, (
        f"at its maximum size, the stack costs {money(total.month)} a month, below the ceiling of "
        f"{money(ceiling)}, excluding what is billed by use"
    )


def _git(root: Path, *command: str) -> int:
    return subprocess.run(
        ["git", "-C", str(root), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode
