"""Whether the cloud's GPU quotas let the pools of a stack grow to `maxNodes`.

And whether the cloud offers their machines in their zones, and on AWS whether who signs in may use
the cluster.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from components.catalog.gke import region_of
from stacks.files import PLACEHOLDER
from stacks.outcome import Answer, CheckError, ExitCode, worst
from stacks.quota import offers
from stacks.quota.offers import Offer, Wanted
from stacks.quota.verdict import (
    Finding,
    Known,
    Need,
    Unknown,
    exit_code,
    judge,
    needs_own_use,
    text,
)
from stacks.settings import ROOT, config_of, platform_of, settings_of


class Quotas(Protocol):
    """A cloud's answers."""

    def answer(self, need: Need) -> Known | Unknown: ...

    def own_use(self, need: Need, cluster: str) -> float | None: ...

    def offer(self, wanted: Wanted) -> Offer: ...


def answer(stack: str, endpoint: str | None = None) -> Answer:
    """Exit code, document and text. Raises CheckError where there is nothing to ask."""
    config = config_of(stack)
    head = {"stack": stack, "platform": platform_of(config)}
    if platform_of(config) == "existing":
        note = "an existing cluster starts no nodes, so no cloud quota bounds it"
        return ExitCode.OK, {**head, "quotas": [], "offers": [], "notes": [note]}, note
    quotas, found, wanted, notes, cluster, findings = _of(stack, config, endpoint)
    verdicts = []
    for need in found:
        answer = quotas.answer(need)
        if isinstance(answer, Known) and needs_own_use(need, answer):
            own = quotas.own_use(need, cluster)
            answer = Known(limit=answer.limit, use=answer.use, own=own)
        verdicts.append(judge(need, answer))
    offered = [quotas.offer(one) for one in wanted]
    if not verdicts:
        notes = [*notes, "no pool counts against a GPU quota"]
    document = {
        **head,
        "quotas": [verdict.document() for verdict in verdicts],
        "offers": [offer.document() for offer in offered],
        "findings": [finding.document() for finding in findings],
        "notes": list(notes),
    }
    code = worst([exit_code(verdicts, findings), offers.exit_code(offered)])
    parts = [text(verdicts, notes), offers.text(offered), "\n".join(map(str, findings))]
    return code, document, "\n\n".join(part for part in parts if part)


def _of(
    stack: str, config: Mapping[str, Any], endpoint: str | None
) -> tuple[Quotas, list[Need], list[Wanted], list[str], str, list[Finding]]:
    """Whom to ask, what is needed of quotas and zones, what is left out, the cluster's name, and
    what else is wrong."""
    settings = settings_of(stack, config)
    for key in ("gcp:project", "aws:region", "aws:profile"):
        if config.get(key) == PLACEHOLDER:
            raise CheckError(
                f"Pulumi.{stack}.yaml: {key}: is encrypted, and this check asks nobody for the "
                f"key; it is no secret: pulumi config set {key} ..."
            )
    # Only the stack's own cloud is imported.
    match settings.platform:
        case "gke" | "gke-autopilot":
            from stacks.quota import google as google_quota

            if settings.platform == "gke":
                gpus, extra = google_quota.pool_gpus(settings.pools), []
            else:
                gpus = google_quota.workload_gpus(
                    settings.pools,
                    settings.workloads.values(),
                    settings.training_jobs.values(),
                    settings.gpu_test,
                )
                extra = ["Autopilot has no maxNodes: counted is what the stack's workloads ask for"]
            region = region_of(settings.cluster.location)
            found, notes = google_quota.needs(
                settings.pools, gpus, project=settings.project, region=region
            )
            return (
                google_quota.GoogleQuotas(settings.project, region, endpoint),
                found,
                google_quota.wanted(settings.pools, settings.cluster.location),
                [*extra, *notes],
                settings.cluster.name,
                [],
            )
        case "eks":
            from stacks.quota import aws_account
            from stacks.quota import eks as aws_quota

            profile = config.get("aws:profile")
            found, notes = aws_quota.needs(settings.pools, region=settings.region)
            try:
                quotas = aws_quota.AwsQuotas.of(settings.region, profile=profile, endpoint=endpoint)
            except ValueError as error:
                raise CheckError(str(error)) from None
            return (
                quotas,
                found,
                aws_account.wanted(settings),
                notes,
                settings.cluster.name,
                quotas.findings(settings),
            )
        case _:
            raise CheckError(f"{stack}: platform {settings.platform} has no quota to ask for")


def rehearsed_endpoint(stack: str) -> str:
    """Where the stack's kept rehearsal simulates the cloud's API."""
    file = ROOT / ".rehearsal" / stack / "sandbox.json"
    try:
        api = json.loads(file.read_text()).get("cloudApi")
    except (OSError, ValueError):
        raise CheckError(
            f"no rehearsal of {stack} is kept: gpu-cluster rehearse {stack} --keep"
        ) from None
    if not api:
        raise CheckError(f"the rehearsal of {stack} simulates no cloud API")
    return str(api)
