import yaml

from tests.simulators.aws_lives import RECORDED, lives


def test_every_aws_resource_lives_as_it_was_recorded() -> None:
    """The same writing requests and the same states, over create, updates, refreshes and delete;
    `python -m tests.simulators.aws_lives` records them anew."""
    recorded = yaml.safe_load(RECORDED.read_text(encoding="utf-8"))
    found = yaml.safe_load(yaml.safe_dump(lives()))
    assert found.keys() == recorded.keys()
    for resource, steps in recorded.items():
        assert found[resource] == steps, resource
