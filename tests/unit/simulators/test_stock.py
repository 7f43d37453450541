"""Machines that a rehearsed cloud runs out of, as an inventory lists them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks, machine_types, stock
from gpu_cluster.stacks.definition.names import StackError
from tests.unit.simulators.test_inventory import settings


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"nodes": -1}, "prod.yaml stock[0].nodes: -1 is too small; allowed: 0 or more"),
        ({"returns": -0.5}, "stock[0].returns: -0.5 is too small"),
        ({"instanceType": "g6.xlarg"}, "stock[0].instanceType: 'g6.xlarg' is of no pool; did you "
         "mean 'g6.xlarge'? allowed: "),
        ({"capacityType": "flex-start"}, "capacityType: 'flex-start' is not known"),
    ],
)  # fmt: skip
def test_what_would_never_run_out_is_refused(
    row: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """A row that nothing matches would make a rehearsal prove less than it says."""
    machines = machine_types(settings("prod").own)
    good = {"instanceType": "g6.xlarge", "nodes": 0}

    def read(row: dict[str, Any]) -> list[Stock]:
        (tmp_path / "prod.yaml").write_text(yaml.safe_dump({"stock": [row]}))
        return stock("prod", tmp_path, ways=["spot"], machines=machines, machine="instanceType")

    assert read(good) == [Stock(machine_type="g6.xlarge")]
    with pytest.raises(StackError, match=re.escape(says)):
        read(good | row)


def test_the_machine_types_are_those_of_every_pool() -> None:
    """On both clouds, the system pool's too."""
    assert {"p5.48xlarge", "g6.xlarge"} < machine_types(settings("prod").own)
    assert "n1-standard-4" in machine_types(settings("reserved").own)


def test_what_is_refused_again_returns_later() -> None:
    """Else it could be there before the next choice was taken, on a busy machine."""
    row = Stock(machine_type="g2-standard-4", returns=3600)
    rows = Stocks([row])
    rows.refused(row)
    (first,) = rows._returning.values()
    rows.refused(row)
    (second,) = rows._returning.values()
    assert first.finished.is_set()
    assert not second.finished.is_set()
    assert rows.restocking
    second.cancel()
