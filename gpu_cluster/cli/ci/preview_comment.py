"""Previews and costs as one comment, in Markdown.

It contains no property values except in warnings of the program itself, which only have plain ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.stacks.cost import stack_cost as cost
from gpu_cluster.stacks.cost.bill import TIMES, Bill
from gpu_cluster.stacks.cost.cost_text import money, signed
from gpu_cluster.stacks.definition.settings import ROOT, config_of
from gpu_cluster.stacks.engine.plan import VERBS, Change, Plan, read_plan
from gpu_cluster.stacks.outcome import CheckError, ExitCode

MARK = "<!-- gpu-cluster: preview -->"
"""The mark by which the next run finds the comment, to replace it."""
MOST = 60_000
"""Maximum length; GitHub accepts 65,536 characters in a comment."""
_NAMES = 5
"""How many names of things that are lost alike the comment lists."""
_DONE = {"replace": "replaced", "delete": "deleted", "update": "updated", "create": "created"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One stack: its plan, that of the base, and its cost before and after."""

    stack: str
    plan: Plan
    base: Plan | None = None
    judged: Plan | None = None
    """The same change under the policies of the base, if those differ."""
    cost: tuple[Bill | None, Bill] | None = None
    """None if it is not known, `(None, after)` if the stack is new."""
    why_no_cost: str = ""
    compared: bool = False
    """Whether there is a base."""

    @property
    def changes(self) -> list[Change]:
        """The changes of this revision, without those that the base would make as well."""
        of_base = set(self.base.changes) if self.base else set()
        return [change for change in self.plan.changes if change not in of_base]

    @property
    def refused_by_base(self) -> list[str]:
        """The errors of the base's policies that those of this revision do not report."""
        if self.judged is None:
            return []
        # A preview refused by a policy also ends with the message that it failed, which adds
        # nothing.
        failed = bool(self.plan.errors)
        return [
            line
            for line in self.judged.errors
            if line not in self.plan.errors and (line.startswith("policy ") or not failed)
        ]


def exit_code(sections: Sequence[Section]) -> ExitCode:
    """2 if a preview failed, else 1 if anything but a system pool would be lost or only the base's
    policies refuse the change, else 0."""
    if any(section.plan.errors for section in sections):
        return ExitCode.UNKNOWN
    if any(section.refused_by_base for section in sections):
        return ExitCode.FINDING
    gone = [change for section in sections for change in section.plan.losses]
    return ExitCode.FINDING if any(change.loss != "system pool" for change in gone) else ExitCode.OK


def sections_of(folder: Path, base: str | None, root: Path = ROOT) -> list[Section]:
    """Reads the previews; raises CheckError if there are none."""
    others = (".base.json", ".policies.json")
    files = sorted(f for f in folder.glob("*.json") if not f.name.endswith(others))
    if not files:
        raise CheckError(f"there is no STACK.json in {folder}: run pulumi preview --json first")
    sections = []
    for file in files:
        before = file.with_name(f"{file.stem}.base.json")
        judged = file.with_name(f"{file.stem}.policies.json")
        bills, why = _costs(file.stem, base, root)
        sections.append(
            Section(
                stack=file.stem,
                plan=_plan(file),
                base=_plan(before) if before.is_file() else None,
                judged=_plan(judged) if judged.is_file() else None,
                cost=bills,
                why_no_cost=why,
                compared=base is not None,
            )
        )
    return sections


def _plan(file: Path) -> Plan:
    """The file's plan; if it is unreadable, a failed one, so that the comment shows the others."""
    try:
        return read_plan(file.read_text(), file.name)
    except CheckError as error:
        message = f"{error}; see the engine's output in the job's log"
        return Plan(changes=(), same=0, errors=(message,))


def _costs(stack: str, base: str | None, root: Path) -> tuple[tuple[Bill | None, Bill] | None, str]:
    try:
        after = cost.bill_at(stack, config_of(stack, root))
        config = cost.config_at(stack, base, root) if base else None
        return (cost.bill_at(stack, config, at=str(base)) if config else None, after), ""
    except CheckError as error:
        return None, str(error)


def comment(sections: Sequence[Section]) -> str:
    """The comment: possible losses, a table of the stacks, then each stack's changes."""
    parts = [MARK, "## Preview"]
    # Also what the base would delete too.
    losses = [(section, change) for section in sections for change in section.plan.losses]
    if losses:
        parts.append("\n".join([*_warning(losses)]))
    for section in sections:
        parts.append(_warned(section.stack, "nodes would be recycled", section.plan.recycled))
        parts.append(_warned(section.stack, "the program warns", section.plan.noted))
    parts += [_weakened(section) for section in sections if section.refused_by_base]
    failed = [section for section in sections if section.plan.errors]
    for section in failed:
        errors = "\n".join(section.plan.errors)
        parts.append(
            f"> [!WARNING]\n> The preview of {code(section.stack)} failed.\n\n{block(errors)}"
        )
    parts.append(_table(sections))
    room = MOST - sum(map(len, parts)) - 2 * len(parts)
    for section in sections:
        text = _details(section, room)
        room -= len(text)
        parts.append(text)
    text = "\n\n".join(part for part in parts if part)
    if len(text) <= MOST:
        return text
    # The warnings come first; a code block that is cut has to be closed.
    return f"{text[:MOST]}\n```\n\nThis comment was too long; see the job's log for the rest."


def _warned(stack: str, what: str, warned: Sequence[str]) -> str:
    lines = [f"> {code(line)}  " for line in warned]
    return "\n".join(["> [!WARNING]", f"> **{stack}: {what}.**  ", *lines]) if lines else ""


def _weakened(section: Section) -> str:
    errors = "\n".join(section.refused_by_base)
    return (
        f"> [!CAUTION]\n> **{section.stack}: the policies of the base branch refuse this, but "
        f"those of this pull request do not.**\n\n{block(errors)}"
    )


def _warning(losses: Sequence[tuple[Section, Change]]) -> list[str]:
    lines = ["> [!CAUTION]"]
    alike: dict[tuple[str, str, str, str, str], list[str]] = {}
    for section, change in losses:
        because = f" because of {', '.join(map(code, change.paths))}" if change.paths else ""
        if not because and change.verb == "replace":
            because = " together with what it depends on"
        key = (section.stack, str(change.loss), change.consequence, _DONE[change.verb], because)
        alike.setdefault(key, []).append(change.name)
    for (stack, loss, consequence, done, because), names in alike.items():
        several = "s" * (len(names) > 1)
        listed = ", ".join(map(code, names[:_NAMES]))
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        lines.append(
            f"> **{stack}: the {loss}{several} {listed}{more} would be {done}**{because}. "
            f"{consequence}  "
        )
    return lines


def _table(sections: Sequence[Section]) -> str:
    head = "| stack | replace | delete | update | create | same | idle a month | full a month |"
    rows = [head, "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for section in sections:
        counts = [str(section.plan.count(verb) or "") for verb in VERBS]
        cells = [code(section.stack), *counts, str(section.plan.same), *_costs_shown(section)]
        rows.append(f"| {' | '.join(cells)} |")
    notes = [
        f"No cost of {code(s.stack)}: {code(s.why_no_cost)}" for s in sections if s.why_no_cost
    ]
    notes += [f"- {code(s.stack)}: {code(line)}" for s in sections for line in s.plan.advice]
    notes.append(
        "\nCosts are list prices as configured, every pool at its minimum (idle) and at its "
        "maximum (full), excluding what is billed by use."
    )
    return "\n".join([*rows, "", *notes])


def _costs_shown(section: Section) -> list[str]:
    if section.cost is None:
        return ["?", "?"]
    before, after = section.cost
    cells = []
    for time in TIMES:
        new = after.total("configured", time)
        text = f"{'≥ ' if new.missing else ''}{money(new.month)}"
        if before is not None:
            old = before.total("configured", time)
            unknown = old.missing or new.missing
            change = signed(None if unknown else new.month - old.month)
            difference = "difference unknown" if unknown else change
            text += "" if change == "0" else f" ({difference})"
        elif section.compared:
            text += " (new)"
        cells.append(text)
    return cells


def _details(section: Section, room: int) -> str:
    if not section.changes:
        return ""
    pending = len(section.plan.changes) - len(section.changes)
    count = _counted(len(section.changes), "change")
    lines = [f"<details><summary>{section.stack}: {count}</summary>", ""]
    end = ["", "</details>"]
    if pending:
        more = _counted(pending, "other change")
        end.insert(
            0, f"\nThe preview of the base has {more} too, so this revision adds none of that."
        )
    left = room - sum(map(len, [*lines, *end])) - 200
    ordered = sorted(section.changes, key=lambda change: VERBS.index(change.verb))
    for position, change in enumerate(ordered):
        paths = f": {', '.join(map(code, change.paths))}" if change.paths else ""
        line = f"- **{change.verb}** {code(change.type)} {code(change.name)}{paths}"
        left -= len(line) + 1
        if left < 0:
            lines.append(f"- and {len(ordered) - position} more: see the job's log")
            break
        lines.append(line)
    return "\n".join([*lines, *end])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def code(text: str) -> str:
    """The text as inline code in a table cell, whatever it contains."""
    flat = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (1 + _longest_run(flat))
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def block(text: str) -> str:
    """The text as a code block."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return f"{fence}\n{text[:4000]}\n{fence}"


def _longest_run(text: str) -> int:
    """The number of backticks in the longest run of them."""
    return max(map(len, re.findall("`+", text)), default=0)
