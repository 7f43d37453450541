"""EC2's estimates for Spot and the Capacity Blocks that it sells, by zone; read-only.

Queries EC2: `GetSpotPlacementScores`, `DescribeAvailabilityZones`,
`DescribeCapacityBlockOfferings`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster.stacks.capacity.advice import Advice, Estimate, Wanted, time_text
from gpu_cluster.stacks.capacity.aws_account import listed, unknown, zones_of

_LEAST_TYPES = 3
"""https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-placement-score.html, "Minimum number of
instance types": with fewer names EC2 returns a low score (read 2026-11-29)."""
_BLOCK_NODES, _BLOCK_HOURS = 64, 24
"""The most instances of a Capacity Block, and the shortest one (botocore,
DescribeCapacityBlockOfferingsRequest)."""


def advise(ec2: Any, wanted: Wanted) -> Advice | None:
    """EC2's answer about a pool's machines; None for a way of buying of which it tells nothing."""
    asked = _ASKED.get(wanted.way)
    if asked is None:
        return None
    if wanted.way == "spot" and len(names := {*wanted.types}) < _LEAST_TYPES:
        return Advice(
            wanted=wanted,
            unasked=f"gpuPools.{wanted.pool}.instanceTypes names {len(names)}, and EC2's Spot "
            "placement score is always low for fewer than three; name three or more instance types",
        )
    try:
        return Advice(wanted=wanted, estimates=tuple(asked(ec2, wanted)))
    except Exception as error:
        return Advice(wanted=wanted, estimates=unknown(error, "ec2"))


def _scores(ec2: Any, wanted: Wanted) -> list[Estimate]:
    """The pool's zones. EC2 answers with IDs of zones, and the best ten of them."""
    zones = ec2.describe_availability_zones()["AvailabilityZones"]
    ids = {row["ZoneName"]: row["ZoneId"] for row in zones}
    rows = listed(
        ec2, "get_spot_placement_scores", "SpotPlacementScores",
        InstanceTypes=sorted({*wanted.types}),
        TargetCapacity=wanted.nodes,
        TargetCapacityUnitType="units",
        SingleAvailabilityZone=True,
        RegionNames=[ec2.meta.region_name],
    )  # fmt: skip
    scores: Mapping[str, int] = {row["AvailabilityZoneId"]: row["Score"] for row in rows}
    places = [(zone, ids.get(zone, zone)) for zone in zones_of(ec2, wanted.zones)]
    return [
        Estimate(
            zone=zone,
            words=f"placement score {scores[key]} of 10" if key in scores else "no score",
            figures={"zoneId": key, "placementScore": scores.get(key)},
        )
        for zone, key in places
    ]


def _blocks(ec2: Any, wanted: Wanted) -> list[Estimate]:
    """The first offering of each zone for a day."""
    rows = listed(
        ec2, "describe_capacity_block_offerings", "CapacityBlockOfferings",
        InstanceType=wanted.types[0],
        InstanceCount=min(wanted.nodes, _BLOCK_NODES),
        CapacityDurationHours=_BLOCK_HOURS,
    )  # fmt: skip
    first: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["StartDate"]):
        first.setdefault(row["AvailabilityZone"], row)
    return [
        Estimate(
            zone=zone,
            words=f"{row['InstanceCount']} from {time_text(row['StartDate'])} to "
            f"{time_text(row['EndDate'])}, {row['UpfrontFee']} {row['CurrencyCode']}",
            figures={
                "offering": row["CapacityBlockOfferingId"],
                "nodes": row["InstanceCount"],
                "start": row["StartDate"].isoformat(),
                "end": row["EndDate"].isoformat(),
                "upfrontFee": row["UpfrontFee"],
                "currency": row["CurrencyCode"],
            },
        )
        for zone, row in first.items()
    ] or [Estimate(zone=zone, words="no block on sale") for zone in wanted.zones]


_ASKED: Mapping[str, Callable[[Any, Wanted], list[Estimate]]] = {
    "spot": _scores,
    "capacity-block": _blocks,
}
"""How nodes are bought -> the question."""
