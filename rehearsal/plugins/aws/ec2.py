"""What EC2's resource types have in common: one noun, one id, tags in one place."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rehearsal.plugins.aws.kind import Kind, NotFoundError, mapping, pairs, pascal, pick

GONE = ("deleting", "deleted", "Deleted")
"""EC2 shows NAT gateways and endpoints for a while after they were deleted, moto for ever."""


class Ec2Kind(Kind):
    """A thing that `create_<noun>`, `describe_<noun>s` and `delete_<noun>` know."""

    noun: ClassVar[str]
    sent: ClassVar[tuple[str, ...]] = ()
    """Inputs that the create call takes under their own names."""
    outputs: ClassVar[Mapping[str, str]] = {}
    """Property -> JMESPath in the description."""

    @property
    def ec2(self) -> Any:
        """A client of EC2."""
        return self.api.client("ec2")

    @property
    def camel(self) -> str:
        """The noun as the API writes it: `InternetGateway`."""
        return "".join(map(pascal, self.noun.split("_")))

    @property
    def id_key(self) -> str:
        """The key of the id in answers: `InternetGatewayId`."""
        return f"{self.camel}Id"

    def specification(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The tags for a create call."""
        if not inputs.get("tagsAll"):
            return {}
        kind = self.noun.replace("_", "-")
        tags = {"ResourceType": kind, "Tags": pairs(inputs["tagsAll"])}
        return {"TagSpecifications": [tags]}

    def create(self, inputs: dict[str, Any]) -> str:
        request = {pascal(name): inputs[name] for name in self.sent if name in inputs}
        create = getattr(self.ec2, f"create_{self.noun}")
        answer = create(**request, **self.specification(inputs))
        identity: str = answer[self.camel][self.id_key]
        return identity

    def row(self, identity: str) -> dict[str, Any]:
        """Its description; raises NotFoundError."""
        rows = getattr(self.ec2, f"describe_{self.noun}s")(**{f"{self.id_key}s": [identity]})
        found: list[dict[str, Any]] = rows[f"{self.camel}s"]
        if not found or found[0].get("State") in GONE:
            raise NotFoundError(f"{self.id_key}: {identity} does not exist")
        return found[0]

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.row(identity)
        return pick(row, self.outputs) | {"tagsAll": mapping(row.get("Tags"))}

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        if gone:
            self.ec2.delete_tags(Resources=[identity], Tags=[{"Key": key} for key in gone])
        if tags:
            self.ec2.create_tags(Resources=[identity], Tags=pairs(tags))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        getattr(self.ec2, f"delete_{self.noun}")(**{self.id_key: identity})

    def arn(self, word: str, identity: str, now: Mapping[str, Any]) -> str:
        """The ARN of one of its owner's, e.g. `internet-gateway`."""
        return self.api.arn("ec2", f"{word}/{identity}", now.get("ownerId") or self.api.number)


def one(call: Callable[..., Any], key: str, filters: Mapping[str, str]) -> dict[str, Any]:
    """The first thing that the filters let through; raises NotFoundError."""
    given = [{"Name": name, "Values": [value]} for name, value in filters.items()]
    for row in call(Filters=given)[key]:
        return dict(row)
    raise NotFoundError(f"no {key} with {dict(filters)}")
