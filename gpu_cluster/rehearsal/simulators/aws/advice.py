"""EC2's Spot placement scores, which moto lacks.

The score of a zone follows from which of the instance types it offers and has in stock. Not
simulated: the limit of the target capacity, which follows from an account's recent use.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.instances import is_offered, short_of
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

_DAY = timedelta(days=1)
_CONFIGURATIONS = 10
"""New ones of a day. EC2 documents no number; aws-samples' dashboard of the scores met this one."""
_BEST = 10
_LEAST_TYPES = 3


@operation("ec2", "GetSpotPlacementScores")
def get_spot_placement_scores(account: Account, params: Params) -> dict[str, Any]:
    """Of each zone, or of the region. Fewer than three types have the lowest score:
    docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-placement-score.html (read 2026-11-29)."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    for name in ("InstanceRequirementsWithMetadata", "IncludeLocalZones", "DryRun"):
        if params.get(name):
            raise Refusal("InvalidParameter", f"a rehearsal does not simulate {name}")
    types = params.get("InstanceTypes") or []
    if not types:
        raise Refusal("MissingParameter", "The request must contain the parameter InstanceType")
    for name in types:
        if name not in INSTANCE_TYPES:
            raise _invalid("InstanceType", name)
    capacity, most = params["TargetCapacity"], params.get("MaxResults") or _BEST
    if capacity < 1:
        raise _invalid("TargetCapacity", capacity)
    if not 10 <= most <= 1000:
        raise _invalid("MaxResults", most)
    regions = params.get("RegionNames") or [account.region]
    if regions != [account.region]:
        raise Refusal("OptInRequired", f"a rehearsal simulates one region: {account.region}")
    single, unit = bool(params.get("SingleAvailabilityZone")), params.get("TargetCapacityUnitType")
    now = datetime.now(UTC)
    configuration = (frozenset(types), capacity, unit, single)
    recent = {key for key, when in account.scored.items() if now - when < _DAY}
    if configuration not in recent and len(recent) >= _CONFIGURATIONS:
        raise Refusal(
            "MaxConfigLimitExceeded",
            "You have exceeded your maximum allowed Spot placement configurations. You can retry "
            "configurations that you used within the last 24 hours, or wait for 24 hours before "
            "specifying a new configuration.",
        )
    account.scored[configuration] = now
    zones = account.client("ec2").describe_availability_zones()["AvailabilityZones"]
    rows = [
        {
            "Region": account.region,
            "AvailabilityZoneId": zone["ZoneId"],
            "Score": _score(account, types, zone["ZoneName"], capacity),
        }
        for zone in zones
    ]
    rows.sort(key=lambda row: -row["Score"])
    if not single:
        rows = [{"Region": account.region, "Score": rows[0]["Score"]}]
    return page(params | {"MaxResults": most}, "SpotPlacementScores", rows[:_BEST],
                after="NextToken", most="MaxResults")  # fmt: skip


def _score(account: Account, types: list[str], zone: str, wanted: int) -> int:
    if len({*types}) < _LEAST_TYPES:
        return 1
    free = [
        name
        for name in types
        if is_offered(account, name, zone) and not short_of(account, name, zone, "spot", wanted)
    ]
    return 1 + 8 * len(free) // len(types)


def _invalid(name: str, value: object) -> Refusal:
    return Refusal("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid.")
