"""Whether a quota is enough for the maximum size of the pools; pure functions for any cloud."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from gpu_cluster.stacks.outcome import ExitCode, worst
from gpu_cluster.stacks.table import amount, table

Word = Literal["enough", "too little", "unknown"]
Unit = Literal["GPUs", "vCPUs", "GB", "VPCs", "subnetworks", "addresses"]
_CODES = {
    **dict.fromkeys(("enough", "later", "offered"), ExitCode.OK),
    **dict.fromkeys(("too little", "not offered", "wrong"), ExitCode.FINDING),
    "unknown": ExitCode.UNKNOWN,
}
"""Word of a `Judged` -> the resulting exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The maximum usage of one quota by all of the stack's pools."""

    quota: str
    """The cloud's name or code for it."""
    scope: str
    """Its scope, for instance `us-central1` or `all regions`."""
    unit: Unit
    pools: Mapping[str, int]
    """Pool -> units at its `maxNodes`; of a network's quota, name of a resource -> 1."""
    link: str
    """The page on which it can be raised."""

    @property
    def units(self) -> int:
        return sum(self.pools.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The cloud's answer about a quota."""

    limit: float
    use: float | None
    """The current usage, including this stack's own nodes; None if the cloud does not tell."""
    own: float | None = None
    """This stack's part of the usage; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The cloud did not answer, or not with a number."""

    reason: str
    explained: bool = False
    """Whether a finding explains it in full, so that it is not repeated for each pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Another problem that would fail the first update, or that could not be checked."""

    about: str
    """`pool train-gpu`, or the key of a setting."""
    word: Literal["wrong", "unknown"]
    reason: str
    unless_runs: str = ""
    """The name of an image without registry and tag; a DaemonSet that runs it disproves this."""

    @classmethod
    def wrong(cls, about: str, reason: str, *, unless_runs: str = "") -> "Finding":
        """A problem that would fail the first update."""
        return cls(about=about, word="wrong", reason=reason, unless_runs=unless_runs)

    @classmethod
    def unknown(cls, about: str, reason: str) -> "Finding":
        """What could not be checked, and why."""
        return cls(about=about, word="unknown", reason=reason)

    def __str__(self) -> str:
        return f"{self.about}: {self.reason}"

    def document(self) -> dict[str, str]:
        return {"about": self.about, "verdict": self.word, "reason": self.reason}


def unless_run(finding: Finding) -> Finding:
    """The finding as it is if the cluster's DaemonSets are not known."""
    if not finding.unless_runs:
        return finding
    reason = f"{finding.reason}, unless a DaemonSet of the cluster, which was not read, runs it"
    return replace(finding, word="unknown", reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One quota, the units needed, and whether they are available."""

    need: Need
    answer: Known | Unknown
    word: Word
    reason: str = ""
    """Why it is not enough, or not known."""

    def document(self) -> dict[str, Any]:
        quota = self.answer if isinstance(self.answer, Known) else None
        return {
            "quota": self.need.quota,
            "scope": self.need.scope,
            "unit": self.need.unit,
            "pools": dict(self.need.pools),
            "need": self.need.units,
            "limit": quota and amount(quota.limit),
            "use": quota and amount(quota.use),
            "ownUse": quota and amount(quota.own),
            "verdict": self.word,
            "reason": self.reason,
            "link": self.need.link,
        }


def needs_own_use(need: Need, answer: Known | Unknown) -> bool:
    """Whether the verdict depends on this stack's part of the usage."""
    return (
        isinstance(answer, Known)
        and answer.use is not None
        and need.units <= answer.limit < answer.use + need.units
    )


def judge_need(need: Need, answer: Known | Unknown) -> Verdict:
    """The verdict. If the numbers allow two, it is `unknown`."""
    word, reason = _judge(need, answer)
    return Verdict(need=need, answer=answer, word=word, reason=reason)


def _judge(need: Need, answer: Known | Unknown) -> tuple[Word, str]:
    if isinstance(answer, Unknown):
        return "unknown", answer.reason
    units, unit, limit = need.units, need.unit, amount(answer.limit)
    if units > answer.limit:
        return "too little", f"{units} {unit} are needed and the limit is {limit}"
    if answer.use is None:
        return "unknown", (
            f"the limit of {limit} {unit} would be enough, but the current usage is unknown"
        )
    if answer.use + units <= answer.limit:
        return "enough", ""
    if answer.own is None:
        return "unknown", (
            f"{amount(answer.use)} of {limit} {unit} are in use, and it is not known how many of "
            "them by this stack"
        )
    others = answer.use - answer.own
    if others + units <= answer.limit:
        return "enough", ""
    return "too little", (
        f"{units} {unit} are needed, and others use {amount(others)} of the {limit}"
    )


class Judged(Protocol):
    """A verdict, an offer, a reservation or a finding."""

    @property
    def word(self) -> str: ...

    @property
    def reason(self) -> str: ...


def no_answer(judged: Sequence[Judged]) -> str:
    """The reason why the cloud answered nothing, if it is always the same, such as missing
    credentials, to be shown once; empty if something is known, or if there is only one answer."""
    first = judged[0].reason if len(judged) > 1 else ""
    same = all(result.word == "unknown" and first in result.reason for result in judged)
    return first if same else ""


def exit_code(judged: Iterable[Judged]) -> ExitCode:
    """1 if something is too little, not offered or wrong, else 2 if it is not known, else 0."""
    return worst(_CODES[result.word] for result in judged)


def verdicts_text(verdicts: Sequence[Verdict], notes: Sequence[str], once: str = "") -> str:
    """The table, then a line for each quota that is not enough, then the notes; without lines for
    those with the reason `once`, which is shown only once."""
    rows = [
        [document[key] for key in ("quota", "scope", "unit", "need", "limit", "use", "verdict")]
        for document in (verdict.document() for verdict in verdicts)
    ]
    head = ["QUOTA", "SCOPE", "UNIT", "NEED", "LIMIT", "IN USE", "VERDICT"]
    parts = [table(head, rows)] if rows else []
    parts += [
        f"{verdict.need.quota} ({', '.join(verdict.need.pools)}): {verdict.word}: "
        f"{verdict.reason}\n  {verdict.need.link}"
        for verdict in verdicts
        if verdict.word != "enough" and not (once and verdict.reason == once)
    ]
    parts += list(notes)
    return "\n".join(parts)
