"""Whether the cloud lets the pools of a stack grow to `maxNodes`: GPU quotas, offers of zones, and
the reservations that pools name. On AWS also whether the current identity may use the cluster."""

import json
import socket
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity import advice, offers, reserved
from gpu_cluster.stacks.capacity.questions import Capacity, Questions, simulator
from gpu_cluster.stacks.capacity.verdict import (
    Finding,
    Known,
    exit_code,
    judge_need,
    needs_own_use,
    no_answer,
    unless_run,
    verdicts_text,
)
from gpu_cluster.stacks.definition.files import PLACEHOLDER, project_name
from gpu_cluster.stacks.definition.names import not_kept
from gpu_cluster.stacks.definition.settings import (
    NOWHERE,
    ROOT,
    config_of,
    platform_of,
    settings_of,
)
from gpu_cluster.stacks.outcome import Answer, CheckError


def answer(
    stack: str, endpoint: str | None = None, *, rehearsal: bool = False, trusted: bool = False
) -> Answer:
    """Exit code, document and text. Raises CheckError if the stack has nothing to check.

    An existing cluster is queried itself: that of the kept rehearsal, or the stack's own, according
    to `stacks.live.cluster.kubeconfig_of`.
    """
    config = config_of(stack)
    head = {"stack": stack, "platform": platform_of(config)}
    platform = PLATFORMS.get(platform_of(config))
    if platform is not None and platform.cloud is None:
        note = (
            "this stack starts no nodes in an existing cluster; the quotas that limit the "
            "cluster's own autoscaled node groups are unknown"
        )
        installed = _installed(stack, config, rehearsal=rehearsal, trusted=trusted)
        document = {
            **head, "quotas": [], "offers": [], "reservations": [], "advice": [],
            "findings": [finding.document() for finding in installed], "notes": [note],
        }  # fmt: skip
        return exit_code(installed), document, "\n".join([note, *map(str, installed)])
    settings = settings_of(stack, config)
    simulated = endpoint or simulator(str(PLATFORMS[settings.platform].cloud))
    asked = _questions(stack, config, settings, simulated)
    cloud, notes, findings = asked.cloud, list(asked.notes), [*asked.findings]
    if not PLATFORMS[settings.platform].owned:
        owner = f"{project_name(ROOT)}/{stack}"
        findings += _existing(stack, settings, asked, owner, rehearsal=rehearsal)
    if simulated:
        notes.append(f"a simulated cloud answered, at {simulated}")
    verdicts = []
    for need in asked.needs:
        answer = cloud.answer(need)
        if isinstance(answer, Known) and needs_own_use(need, answer):
            own_use = cloud.own_use(need, settings.cluster.name)
            answer = Known(limit=answer.limit, use=answer.use, own=own_use)
        verdicts.append(judge_need(need, answer))
    offered = [cloud.offer(wanted) for wanted in asked.wanted]
    known = [cloud.reserved(item, settings.cluster.name) for item in asked.reservations]
    machines = [*asked.machines, *reserved.missing(known)]
    advised = [found for item in machines if (found := cloud.advise(item)) is not None]
    if not verdicts:
        notes.append("no pool counts against a GPU quota")
    document = {
        **head,
        "quotas": [verdict.document() for verdict in verdicts],
        "offers": [offer.document() for offer in offered],
        "reservations": [item.document() for item in known],
        "advice": [item.document() for item in advised],
        "findings": [finding.document() for finding in findings],
        "notes": notes,
    }
    code = exit_code([*verdicts, *findings, *offered, *known])
    questions = [item for item in advised if not item.unasked]
    once = no_answer([*verdicts, *offered, *known, *questions, *findings])
    parts = [
        verdicts_text(verdicts, notes, once),
        offers.offers_text(offered, once),
        reserved.reserved_text(known, once),
        advice.advice_text(advised, once),
    ]
    parts += ["\n".join(str(line) for line in findings if not (once and once in line.reason))]
    parts += [f"the cloud could not be queried: {once}"] if once else []
    return code, document, "\n\n".join(part for part in parts if part)


def _installed(
    stack: str, config: Mapping[str, Any], *, rehearsal: bool, trusted: bool
) -> list[Finding]:
    """Software in an existing cluster that the stack would install."""
    batch = settings_of(stack, config, kubeconfig=NOWHERE).batch
    if batch is None:
        return []
    from gpu_cluster.stacks.live.cluster import kubeconfig_of
    from gpu_cluster.stacks.live.controllers import foreign_controllers

    try:
        kubeconfig = kubeconfig_of(stack, None, rehearsal=rehearsal, trusted=trusted)
        controllers = foreign_controllers(kubeconfig, batch, f"{project_name(ROOT)}/{stack}")
    except CheckError as error:
        return [Finding.unknown("batch", str(error))]
    return [Finding.wrong(key, reason) for key, reason in controllers.items()]


def _existing(
    stack: str, settings: Settings[Any], asked: Questions, owner: str, *, rehearsal: bool
) -> list[Finding]:
    """Conflicts of an existing cluster in a cloud with the stack."""
    from gpu_cluster.stacks.capacity.conflicts import conflicts, without_running
    from gpu_cluster.stacks.live.cluster import Denied, kubeconfig_of
    from gpu_cluster.stacks.live.controllers import foreign_controllers

    found = [*asked.existing(owner)]
    if any(finding.about == "cluster.existing" for finding in found):
        return found
    try:
        if rehearsal or asked.kubeconfig is None:
            kubeconfig = kubeconfig_of(stack, None, rehearsal=rehearsal)
        else:
            kubeconfig = asked.kubeconfig()
        result, unread = conflicts(kubeconfig, settings, owner, reads_aws_auth=asked.reads_aws_auth)
        if settings.batch:
            try:
                result |= foreign_controllers(kubeconfig, settings.batch, owner)
            except Denied as error:
                unread.append(("batch", str(error)))
        found = without_running(kubeconfig, found, owner)
    except CheckError as error:
        unread_cluster = Finding.unknown("cluster", str(error))
        return [*map(unless_run, found), unread_cluster]
    return [
        *found,
        *(Finding.wrong(key, reason) for key, reason in result.items()),
        *(Finding.unknown(key, reason) for key, reason in unread),
    ]


def _questions(
    stack: str, config: Mapping[str, Any], settings: Settings[Any], endpoint: str | None
) -> Questions:
    # Only the module of the stack's own cloud is imported.
    module = cast(Capacity, import_module(PLATFORMS[settings.platform].capacity))
    for key in module.KEYS:
        if PLACEHOLDER in str(config.get(key)):
            raise CheckError(
                f"Pulumi.{stack}.yaml: {key}: is encrypted, and this check cannot decrypt it; it "
                f"does not need to be a secret: pulumi config set {key} ..."
            )
    try:
        return module.questions(settings, endpoint)
    except ValueError as error:
        raise CheckError(str(error)) from None


def rehearsed_endpoint(stack: str) -> str | None:
    """The address at which the stack's kept rehearsal simulates the cloud's API; None for a stack
    without a cloud."""
    platform = PLATFORMS.get(platform_of(config_of(stack)))
    if platform is not None and platform.cloud is None:
        return None
    file = ROOT / ".rehearsal" / stack / "sandbox.json"
    try:
        api = json.loads(file.read_text()).get("cloudApi")
        if not api:
            raise CheckError(f"the rehearsal of {stack} simulates no cloud API")
        # The file remains after the rehearsal has ended.
        address = urlsplit(api)
        socket.create_connection((str(address.hostname), address.port or 80), timeout=5.0).close()
    except (OSError, ValueError):
        raise not_kept(stack) from None
    return str(api)
