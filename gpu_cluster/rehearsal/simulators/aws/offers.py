"""EC2's offerings and prices, paginated as in its API. moto returns everything at once, has a
single Spot price, and lacks the price list.

On-demand prices are the catalog's, so this price list has the catalog's instance types. A Spot
price is a fraction of them, the same in every zone: no test should depend on its amount.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.rehearsal.simulators.aws import auto_mode, pod_calls
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.collection import filtered, filters
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

_SPOT_SHARE = 0.4
_SPOT_FILTERS = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
}
"""Filter of Spot prices -> the member that it is about."""
_PRICES = {**catalog.CPU_INSTANCE_TYPES, **catalog.INSTANCE_TYPES}
_PRICE_LIST_PAGE = 100


@operation("ec2", "DescribeInstanceTypes")
def describe_instance_types(account: Account, params: Params) -> dict[str, Any]:
    """At most 100 per page. Refuses types that do not exist, and dry runs, as EC2 does."""
    if params.get("DryRun"):
        raise Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
    rows = account.backend("ec2").describe_instance_types(
        params.get("InstanceTypes") or [], filters(params)
    )
    pod = pod_calls.caller(account)
    if pod is not None and pod.automatic:
        rows = [row for row in rows if auto_mode.starts(row["InstanceType"])]
    # moto adds its own members to them.
    shown = [{key: row[key] for key in row if key[0].isupper()} for row in rows]
    most = {"MaxResults": min(params.get("MaxResults") or 100, 100)}
    return page(params | most, "InstanceTypes", shown, after="NextToken", most="MaxResults")


@operation("ec2", "DescribeInstanceTypeOfferings")
def describe_instance_type_offerings(account: Account, params: Params) -> dict[str, Any]:
    """At most 1000 per page."""
    kind = params.get("LocationType") or "region"
    rows = account.backend("ec2").describe_instance_type_offerings(kind, filters(params))
    shown = [{**row, "LocationType": kind} for row in rows]
    most = {"MaxResults": min(params.get("MaxResults") or 1000, 1000)}
    return page(params | most, "InstanceTypeOfferings", shown, after="NextToken", most="MaxResults")


@operation("ec2", "DescribeSpotPriceHistory")
def describe_spot_price_history(account: Account, params: Params) -> dict[str, Any]:
    """The current price of every type in the catalog, in each zone that offers it."""
    wanted = filters(params)
    if params.get("InstanceTypes"):
        wanted["instance-type"] = params["InstanceTypes"]
    if params.get("AvailabilityZone"):
        wanted["availability-zone"] = [params["AvailabilityZone"]]
    if params.get("ProductDescriptions"):
        wanted["product-description"] = params["ProductDescriptions"]
    offers = account.backend("ec2").describe_instance_type_offerings("availability-zone", {})
    rows = [
        {
            "AvailabilityZone": offer["Location"],
            "InstanceType": offer["InstanceType"],
            "ProductDescription": "Linux/UNIX",
            "SpotPrice": f"{row.on_demand * _SPOT_SHARE:.6f}",
            "Timestamp": datetime.now(UTC),
        }
        for offer in offers
        if (row := _PRICES.get(offer["InstanceType"])) and row.on_demand is not None
    ]
    found = filtered(rows, wanted, _SPOT_FILTERS)
    return page(params, "SpotPriceHistory", found, after="NextToken", most="MaxResults")


def with_price_list(account: Account, application: Callable[..., Any]) -> Callable[..., Any]:
    """The application with the Price List API, which moto lacks, in front of it: `GetProducts`."""

    def answer(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if not target.startswith("AWSPriceListService."):
            found: Iterable[bytes] = application(environ, start_response)
            return found
        length = int(environ.get("CONTENT_LENGTH") or 0)
        params = json.loads(environ["wsgi.input"].read(length) or "{}")
        status, body = _answered(account, target.partition(".")[2], params, environ)
        headers = [("Content-Type", "application/x-amz-json-1.1")]
        start_response(status, headers)
        return [json.dumps(body).encode()]

    return answer


def _answered(
    account: Account, name: str, params: Params, environ: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    try:
        with account.lock:
            key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2]
            pod_calls.check_key(account, key.partition("/")[0], "pricing", name, params)
        if name != "GetProducts":
            raise Refusal("InvalidParameterException", f"a rehearsal does not simulate {name}")
    except Refusal as refused:
        return "400 Bad Request", {"__type": refused.code, "Message": refused.message}
    wanted = {condition["Field"]: condition["Value"] for condition in params.get("Filters") or []}
    metal = "bare metal" in wanted.get("productFamily", "")
    rows = [
        _product(name, row.on_demand)
        for name, row in _PRICES.items()
        if row.on_demand is not None
        and name.endswith(".metal") == metal
        and wanted.get("instanceType", name) == name
    ]
    most = {"MaxResults": min(params.get("MaxResults") or _PRICE_LIST_PAGE, _PRICE_LIST_PAGE)}
    found = page(params | most, "PriceList", rows, after="NextToken", most="MaxResults")
    return "200 OK", {"FormatVersion": "aws_v1", **found}


def _product(name: str, price: float) -> str:
    """An entry of the price list, with the members by which clients find type and price."""
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{price:.10f}"}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {f"{name}.JRTCKXETXF": {"priceDimensions": {"1": dimension}}}},
        }
    )
