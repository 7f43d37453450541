"""Sends the same requests to the offline and the official plugin, and compares the responses."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, plain, resource_schema
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from quality.fidelity.behind import Behind
from quality.fidelity.cases import Case
from quality.fidelity.packages import Package
from quality.fidelity.questions import Checked, Plugin, Refused, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The response of one plugin to a case."""

    check: str
    """`accepted` or `refused`."""
    reason: str = ""
    step: Step | None = None
    """None if `Check` refused, or if there is no resource before."""
    unknown: frozenset[str] | None = None
    """The outputs that are unknown in a preview of a new resource; None without such a preview."""

    @property
    def short(self) -> str:
        """`refused`, `accepted`, or the step of the resource."""
        return "refused" if _refuses(self) else self.step.what if self.step else "accepted"

    @property
    def line(self) -> str:
        """The verdict in one line, for the table of differences."""
        if self.check == "refused" or self.step is None:
            return f"{self.check}{self.reason and ': '}{self.reason}".splitlines()[0]
        step = self.step
        keys = f" for {', '.join(step.keys)}" if step.keys else ""
        first = ", deletes first" if step.first_delete else ""
        return f"{step.what}{keys}{first}{step.reason and ': '}{step.reason}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A case with the verdicts of both plugins."""

    case: Case
    offline: Verdict
    official: Verdict

    @property
    def differs(self) -> tuple[str, ...]:
        """The parts that differ, of `check`, `diff`, `delete first` and `outputs`."""
        ours, theirs = self.offline, self.official
        if _refuses(ours) != _refuses(theirs):
            return ("check",)
        if _refuses(ours):
            return ()
        found = []
        if ours.step and theirs.step:
            # A rule in the provider's own code replaces without naming a property.
            keys = ours.step.keys and theirs.step.keys and ours.step.keys != theirs.step.keys
            if keys or ours.step.what != theirs.step.what:
                found.append("diff")
            elif ours.step.first_delete != theirs.step.first_delete:
                found.append("delete first")
        if self.unknown_to_one:
            found.append("outputs")
        return tuple(found)

    @property
    def unknown_to_one(self) -> frozenset[str]:
        """Outputs that are unknown in the preview of only one of the two."""
        ours, theirs = self.offline.unknown, self.official.unknown
        return ours ^ theirs if ours is not None and theirs is not None else frozenset()


def _refuses(verdict: Verdict) -> bool:
    return verdict.check == "refused" or bool(verdict.step and verdict.step.what == "refused")


class Judge:
    """Queries one plugin; each Check with the same inputs only once."""

    def __init__(
        self, package: Package, plugin: Plugin, behind: Behind, state: "Judge | None" = None
    ) -> None:
        """`state`: the judge whose plugin determines a resource's state; by default this one."""
        self._package = package
        self._plugin = plugin
        self._behind = behind
        self._of_state = state or self
        self._checked: dict[str, Checked] = {}
        self._states: dict[str, dict[str, Any]] = {}

    def verdict(self, case: Case) -> Verdict:
        """The plugin's verdict on the case."""
        token, name = case.of.token, case.of.name
        if case.before is None:
            found = self._plugin.check(token, name, case.after, {})
            return self._new(case, found, preview=self._behind.dry_runs or case.kind == "name")
        old = self.checked(case)
        if old.refused:
            return _refusal(old)
        if self._behind.dry_runs:
            # Each plugin would choose a different name if none is given.
            old = self._of_state.checked(case)
        new = self._plugin.check(token, name, case.after, old.inputs)
        if new.refused:
            return _refusal(new)
        try:
            state = self._of_state.state(case) | self._names(old.inputs)
        except Refused as error:
            # If the other plugin has no state, only refusals can be compared.
            if self._of_state is self and not self._behind.dry_runs:
                return Verdict(check="refused", reason=str(error))
            return self._new(case, old, preview=True)
        step = self._plugin.diff(token, name, state=state, old=old.inputs, new=new.inputs)
        if self._behind.dry_runs:
            return Verdict(check="accepted", step=self._tried(case, step, state, new.inputs))
        new_one = self._new(case, new, preview=case.kind in PREVIEWED)
        return Verdict(check="accepted", step=step, unknown=new_one.unknown)

    def _tried(
        self, case: Case, step: Step, state: Mapping[str, Any], new: Mapping[str, Any]
    ) -> Step:
        """The step, or the API server's refusal of its dry run."""
        token, name = case.of.token, case.of.name
        try:
            if step.what == "update":
                self._plugin.update(token, name, state=state, new=new)
            elif step.what == "replace":
                # The engine has a replacement checked as a new resource, which names it again.
                again = self._plugin.check(token, name, case.after, {})
                if again.refused:
                    return Step(what="refused", reason="; ".join(again.refused))
                self._plugin.preview(token, name, again.inputs)
        except Refused as error:
            return Step(what="refused", reason=str(error))
        return step

    def state(self, case: Case) -> dict[str, Any]:
        """The state of a resource created from the case's `before`: its preview, with empty values
        for outputs that only the cloud knows. Raises Refused."""
        key = _key(case)
        if self.checked(case).refused:
            raise Refused("it refuses the inputs")
        if key not in self._states:
            token, name, inputs = case.of.token, case.of.name, self.checked(case).inputs
            try:
                self._states[key] = self._behind.state(
                    token, inputs, lambda: self._plugin.preview(token, name, inputs)
                )
            except ApiError as error:
                raise Refused(f"it cannot be made: {error}") from None
        return self._states[key]

    def forget(self) -> None:
        """Deletes the resource, if a cloud has it."""
        if self._behind.dry_runs:
            self._behind.forget()
            self._states.clear()

    def _names(self, checked: Mapping[str, Any]) -> dict[str, Any]:
        return {name: checked[name] for name in NAMED if name in checked.get("__defaults", ())}

    def checked(self, case: Case) -> Checked:
        assert case.before is not None
        key = _key(case)
        if key not in self._checked:
            found = self._plugin.check(case.of.token, case.of.name, case.before, {})
            self._checked[key] = found
        return self._checked[key]

    def _new(self, case: Case, found: Checked, *, preview: bool) -> Verdict:
        if found.refused:
            return _refusal(found)
        if not preview:
            return Verdict(check="accepted")
        try:
            outputs = self._plugin.preview(case.of.token, case.of.name, found.inputs)
        except Refused as error:
            return Verdict(check="refused", reason=str(error))
        if not self._package.previews:
            return Verdict(check="accepted")
        return Verdict(check="accepted", unknown=frozenset(_unknown(case.of.token, outputs)))


NAMED = ("name", "accountId")
"""Properties that are generated from a resource's name if they are not given."""
PREVIEWED = ("declared", "add")


def _refusal(checked: Checked) -> Verdict:
    return Verdict(check="refused", reason="; ".join(checked.refused))


def _key(case: Case) -> str:
    return json.dumps([case.of.token, case.of.name, case.before], sort_keys=True)


def _unknown(token: str, outputs: Mapping[str, Any]) -> Iterator[str]:
    for path, value in _leaves(outputs, resource_schema(token).kinds):
        if value == UNKNOWN and path != "id":
            yield path


def _leaves(outputs: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in outputs.items():
        kind = plain(kinds.get(name))
        if kind is None:
            continue  # the SDK has no such output: a program cannot read it
        if isinstance(value, Mapping) and sdk.is_output_type(kind):
            for path, inner in _leaves(value, sdk.output_types(kind)):
                yield f"{name}.{path}", inner
        else:
            yield name, value


def compared(
    package: Package, cases: Iterable[Case], offline: Plugin, official: Plugin, behind: Behind
) -> Iterator[Answer]:
    """All responses, in the order of the cases. Both sides use the official plugin's state."""
    theirs = Judge(package, official, behind)
    ours = Judge(package, offline, behind, theirs)
    for case in cases:
        behind.prepare(case.of)
        judged = theirs.verdict(case)
        yield Answer(case=case, offline=ours.verdict(case), official=judged)
        theirs.forget()
