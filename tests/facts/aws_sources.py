"""What others maintain of AWS: moto's instance types and botocore's partitions, in their wheels."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Node = Mapping[str, Any]


@cache
def instance_types() -> Node:
    """Name -> row, as `ec2:DescribeInstanceTypes` answered moto's maintainers."""
    packed = (files("moto.ec2") / "resources" / "instance_types.json.gz").read_bytes()
    return dict(json.loads(gzip.decompress(packed)))


@cache
def partitions() -> Node:
    """Region -> the partition that it is of, as botocore has them; without the global ones."""
    rows = json.loads((files("botocore") / "data" / "partitions.json").read_text())["partitions"]
    return {
        region: row["id"] for row in rows for region in row["regions"] if "global" not in region
    }


@cache
def regions() -> Mapping[str, set[str]]:
    """Region -> the instance types that cfn-lint or moto has there."""
    folder = files("cfnlint.data.schemas.extensions") / "aws_ec2_instance"
    rows = json.loads((folder / "instancetype_enum.json").read_text())
    found = {region: {*row["enum"]} for region, row in rows.items() if isinstance(row, dict)}
    del found["all"]
    for region, places in offerings("region").items():
        found.setdefault(region, set()).update(*places.values())
    return found


@cache
def offerings(kind: str) -> Node:
    """Region -> place (`availability-zone`, `availability-zone-id`) -> the instance types there."""
    found: dict[str, dict[str, set[str]]] = {}
    folder = files("moto.ec2") / "resources" / "instance_type_offerings" / kind
    for file in folder.iterdir():
        region, _, ending = file.name.partition(".")
        if ending == "json.gz":
            places = found.setdefault(region, {})
            for row in json.loads(gzip.decompress(file.read_bytes())):
                places.setdefault(row["Location"], set()).add(row["InstanceType"])
    return found
