"""`python -m quality compare-plugins`: compares a package's offline plugin with the official
one."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.rehearsal.plugins.official import sdk_version
from gpu_cluster.stacks.outcome import Answer as CommandAnswer
from gpu_cluster.stacks.outcome import ExitCode
from gpu_cluster.stacks.table import table
from quality.fidelity.cases import Case, all_cases
from quality.fidelity.compare import Answer, compared
from quality.fidelity.declared import declared
from quality.fidelity.packages import PACKAGES
from quality.fidelity.page import RESULTS, write_fidelity
from quality.fidelity.questions import Plugin, official

REASONS = Path(__file__).with_name("reasons.yaml")
VERDICTS = ("offline", "official", "unknown to one")
GOAL = 99.5
"""The percentage of verdicts that must agree, apart from differences that not all versions have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One verdict that differs from the official plugin's."""

    answer: Answer
    reason: str
    """Why it is accepted; empty if no reason is given."""

    def document(self) -> dict[str, Any]:
        """The difference for JSON and the page."""
        case, ours, theirs = self.answer.case, self.answer.offline, self.answer.official
        found: dict[str, Any] = {
            "type": case.of.token.partition(":")[2],
            "resource": f"{case.of.stack or '-'}/{case.of.name}",
            "kind": case.kind,
            "path": case.path,
            "in": list(self.answer.differs),
            "reason": self.reason,
        }
        if set(self.answer.differs) - {"outputs"}:
            found |= {"offline": ours.line, "official": theirs.line}
        if "outputs" in self.answer.differs:
            found["unknown to one"] = sorted(self.answer.unknown_to_one)
        return found


def compare_plugins(package: str, program: Path, *, most: int | None, docs: bool) -> CommandAnswer:
    """Queries both plugins; `most` cases, spread over all, or all. Raises CheckError."""
    of, began = PACKAGES[package], time.monotonic()
    cases = list(spread(list(all_cases(of, declared(package))), most))
    with ExitStack() as running:
        behind = running.enter_context(of.behind())
        config = {**of.config, **behind.config}
        ours = Plugin(running.enter_context(of.offline()), config)
        theirs = running.enter_context(official(program, config, of.environment))
        answers = list(_with_progress(compared(of, cases, ours, theirs, behind), len(cases)))
        versions = {"offline": ours.version, "official": theirs.version}
        ours.close()
    found, stale = judged(package, answers)
    document = _document(package, answers, found, versions, time.monotonic() - began)
    document["stale"] = stale
    unexplained = [difference for difference in found if not difference.reason]
    if docs:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{package}.json").write_text(json.dumps(document, indent=1) + "\n")
        write_fidelity()
    failed = unexplained or stale or document["same but for versions"] < GOAL
    return ExitCode.FINDING if failed else ExitCode.OK, document, "\n".join(_text(document))


def spread(cases: Sequence[Case], most: int | None) -> Sequence[Case]:
    """At least one case of each type and kind, then pseudo-random ones, the same in every run."""
    if most is None or len(cases) <= most:
        return cases
    ranked = sorted(cases, key=lambda case: sha256(case.label.encode()).digest())
    first: dict[tuple[str, str], Case] = {}
    for case in ranked:
        first.setdefault((case.of.token, case.kind), case)
    chosen = {case.label for case in first.values()}
    for case in ranked:
        if len(chosen) >= most:
            break
        chosen.add(case.label)
    return [case for case in cases if case.label in chosen]


def _with_progress(answers: Iterator[Answer], total: int) -> Iterator[Answer]:
    for number, answer in enumerate(answers, 1):
        if number % 500 == 0:
            print(f"asked {number} of {total}", file=sys.stderr)
        yield answer


def judged(package: str, answers: Sequence[Answer]) -> tuple[list[Difference], list[str]]:
    """The differences with their reasons, and the reasons that are no longer needed."""
    rows = yaml.safe_load(REASONS.read_text())[package]
    found, used = [], set()
    for answer in answers:
        if not answer.differs:
            continue
        case, reasons, open_ = answer.case, [], set(answer.differs)
        unknown = set(answer.unknown_to_one)
        for number, row in enumerate(rows):
            accepted: set[str] = set()
            for side, verdict in (("official", answer.official), ("offline", answer.offline)):
                if f"{side}_says" in row and row[f"{side}_says"] in verdict.line:
                    accepted |= {"check"}
            of_type = fnmatchcase(case.of.token, f"{package}:{row.get('type')}")
            shared = unknown & set(row.get("unknown", ())) if of_type else set()
            if of_type and case.kind in row.get("kinds", ()) and _at(case.path, row["paths"]):
                accepted |= {"check", "diff", "delete first"}
            if accepted or shared:
                open_ -= accepted
                unknown -= shared
                used.add(number)
                reasons.append(row["reason"])
        if not unknown:
            open_ -= {"outputs"}
        found.append(
            Difference(answer=answer, reason="" if open_ else " ".join(dict.fromkeys(reasons)))
        )
    asked = {(answer.case.of.token, answer.case.kind, answer.case.path) for answer in answers}
    stale = [
        f"{row.get('type') or row.get('official_says') or row.get('offline_says')}: "
        f"{', '.join(row.get('paths', row.get('unknown', ())))}"
        for number, row in enumerate(rows)
        if number not in used and _all_asked(package, row, asked)
    ]
    return found, stale


def _at(path: str, paths: Sequence[str]) -> bool:
    """Whether a path matches one of these; `*` matches any text."""
    return any(path == mask or ("*" in mask and fnmatchcase(path, mask)) for mask in paths)


def _all_asked(package: str, row: Mapping[str, Any], asked: set[tuple[str, str, str]]) -> bool:
    """Whether a row could have been used; for outputs, only if most cases were queried."""
    token = f"{package}:{row.get('type')}"
    if "official_says" in row or "offline_says" in row:
        return len(asked) > 5000
    if "unknown" in row:
        adds = [name for name, kind, _ in asked if kind == "add" and fnmatchcase(name, token)]
        return len(adds) > 200
    return any(
        fnmatchcase(word, token) and kind in row["kinds"] and _at(path, row["paths"])
        for word, kind, path in asked
    )


def _document(
    package: str,
    answers: Sequence[Answer],
    found: Sequence[Difference],
    versions: Mapping[str, str],
    seconds: float,
) -> dict[str, Any]:
    differing = [difference for difference in found if set(difference.answer.differs) - {"outputs"}]
    verdicts = [diff.answer for diff in differing]
    by_version = [item for item in differing if item.reason.startswith("Version.")]
    previews = [answer for answer in answers if answer.offline.unknown is not None]
    outputs = [item.answer for item in found if "outputs" in item.answer.differs]
    return {
        "package": package,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": {**versions, "sdk": sdk_version(package)},
        "cases": len(answers),
        "same": _share(len(verdicts), len(answers)),
        "same but for versions": _share(len(verdicts) - len(by_version), len(answers)),
        "verdicts": dict(sorted(Counter(answer.official.short for answer in answers).items())),
        "previews": len(previews),
        "same outputs": _share(len(outputs), len(previews)),
        "seconds": round(seconds),
        "kinds": _rows(answers, verdicts, lambda case: case.kind),
        "types": _rows(answers, verdicts, lambda case: case.of.token.partition(":")[2]),
        "differences": [item.document() for item in found],
    }


def _rows(answers: Sequence[Answer], differ: Sequence[Answer], key: Any) -> list[dict[str, Any]]:
    asked = Counter(key(answer.case) for answer in answers)
    bad = Counter(key(difference.case) for difference in differ)
    return [
        {"of": name, "cases": count, "differ": bad[name], "same": _share(bad[name], count)}
        for name, count in sorted(asked.items())
    ]


def _share(bad: int, of: int) -> float:
    return round(100 - 100 * bad / of, 2) if of else 100.0


def _text(document: Mapping[str, Any]) -> Iterator[str]:
    versions = document["versions"]
    yield (
        f"{document['package']}: official {versions['official']}, offline for {versions['offline']}"
    )
    head = ("", "cases", "differ", "same %")
    for rows in (document["kinds"], document["types"]):
        yield table(head, [[r["of"], r["cases"], r["differ"], r["same"]] for r in rows])
        yield ""
    for difference in document["differences"]:
        if not difference["reason"]:
            texts = {name: difference[name] for name in VERDICTS if name in difference}
            case = f"{difference['resource']} {difference['kind']} {difference['path']}"
            yield f"no reason: {difference['type']} {case}: {texts}"
    for row in document["stale"]:
        yield f"differs no more: {row}; drop it from {REASONS.name}"
    yield (
        f"{document['cases']} cases, {document['same']} % the same verdict, "
        f"{document['same but for versions']} % but for versions; {document['previews']} "
        f"previews, {document['same outputs']} % with the same outputs unknown"
    )
