"""Resource types that moto lacks: their create, describe, list, update and delete."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.eks import now
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import guarded
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.rows import Row

Rows = dict[str, Row]
"""Resources by what identifies them."""


class Collection:
    """A resource type of EKS; each subclass is for one, and `serve` registers its operations."""

    service: ClassVar[str] = "eks"
    noun: ClassVar[str]
    """Its name in operations: `AccessEntry` of `CreateAccessEntry`."""
    nouns: ClassVar[str] = ""
    """The plural, unless it is `noun` with an s; starts in lower case in the response of a list."""
    member: ClassVar[str]
    """The member of responses with one of them."""
    members: ClassVar[str] = ""
    """The member with a page of them, unless it is `member` with an s."""
    key: ClassVar[str]
    """The parameter and member that identifies one among `rows`."""
    exists: ClassVar[tuple[str, str]]
    unknown: ClassVar[tuple[str, str]]
    """The refusals of a second one with its key, with the row's members filled in, and of one that
    does not exist, with the request's parameters: code and message."""
    updates: ClassVar[tuple[str, ...]] = ()
    """The parameters that an update changes."""

    # Subclasses override these methods.

    def rows(self, account: Account, params: Params) -> Rows:
        """Where the resources are kept."""
        raise NotImplementedError

    def new(self, account: Account, params: Params) -> Row:
        """The row of a new resource, with the API's defaults; raises Refusal for what the API
        refuses before it looks whether there is one already."""
        raise NotImplementedError

    def check(self, account: Account, row: Row, params: Params) -> None:
        """Raises Refusal if the API refuses a new row, or one that an update has changed."""

    def refuse_deletion(self, account: Account, row: Row) -> None:
        """Raises Refusal for a resource in use."""

    def shown(self, account: Account, row: Row) -> Row:
        """The row in responses."""
        return row

    def listed(self, account: Account, params: Params) -> Iterable[Any]:
        """What a list has of each resource: by default its key."""
        return self.rows(account, params)

    def deleted(self, account: Account, row: Row) -> Row:
        """The response to a deletion."""
        return {self.member: self.shown(account, row)}

    # Methods that all collections share.

    def add(self, account: Account, params: Params) -> Row:
        """The row of the resource that is created; raises Refusal."""
        rows, row = self.rows(account, params), self.new(account, params)
        if row[self.key] in rows:
            code, words = self.exists
            raise Refusal(code, words.format_map(row))
        self.check(account, row, params)
        rows[row[self.key]] = row
        return row

    def found(self, account: Account, params: Params) -> Row:
        """The row of the request's resource; raises Refusal if it does not exist."""
        rows = self.rows(account, params)
        if params[self.key] not in rows:
            code, words = self.unknown
            raise Refusal(code, words.format_map(params))
        return rows[params[self.key]]

    def create(self, account: Account, params: Params) -> Row:
        """`CreateAccessEntry`."""
        return {self.member: self.shown(account, self.add(account, params))}

    def describe(self, account: Account, params: Params) -> Row:
        """`DescribeAccessEntry`."""
        return {self.member: self.shown(account, self.found(account, params))}

    def list(self, account: Account, params: Params) -> Row:
        """`ListAccessEntries`."""
        return page(params, self.members or f"{self.member}s", [*self.listed(account, params)])

    def update(self, account: Account, params: Params) -> Row:
        """`UpdateAccessEntry`."""
        rows, row = self.rows(account, params), self.found(account, params)
        changes = {name: params[name] for name in self.updates if name in params}
        new = row | changes | {"modifiedAt": now()}
        self.check(account, new, params)
        with guarded(account, undo=partial(rows.__setitem__, row[self.key], row)):
            rows[row[self.key]] = new
        return {self.member: self.shown(account, new)}

    def delete(self, account: Account, params: Params) -> Row:
        """`DeleteAccessEntry`."""
        rows, row = self.rows(account, params), self.found(account, params)
        self.refuse_deletion(account, row)
        with guarded(account, undo=partial(rows.__setitem__, row[self.key], row)):
            del rows[row[self.key]]
        return self.deleted(account, row)

    def serve(self) -> None:
        """Registers the operations instead of moto's."""
        nouns = self.nouns or f"{self.noun}s"
        operation(self.service, f"Create{self.noun}")(self.create)
        operation(self.service, f"Describe{self.noun}")(self.describe)
        operation(self.service, f"List{nouns}")(self.list)
        operation(self.service, f"Delete{self.noun}")(self.delete)
        if self.updates:
            operation(self.service, f"Update{self.noun}")(self.update)


class Ec2Collection(Collection):
    """A resource type of EC2, whose rows are kept in moto's backend, and whose tags moto keeps.

    EC2 describes all of them at once, by IDs and filters.
    """

    service = "ec2"
    prefix: ClassVar[tuple[str, str]] = ("", "")
    """The type of the resource in tags, and the prefix of its IDs: `placement-group` and `pg`."""
    identity: ClassVar[str]
    """The member with the ID, if it is not the key; its plural is a parameter of describe."""
    filters: ClassVar[Mapping[str, str]]
    """Name of a filter -> member of the row."""

    def rows(self, account: Account, params: Params) -> Rows:
        kept: Rows = vars(account.backend("ec2")).setdefault(f"simulated {self.noun}", {})
        return kept

    def add(self, account: Account, params: Params) -> Row:
        # Not before an account is served: moto.ec2 reads the user's AWS profile.
        from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, EC2_RESOURCE_TO_PREFIX

        kind, prefix = self.prefix
        EC2_RESOURCE_TO_PREFIX[kind], EC2_PREFIX_TO_RESOURCE[prefix] = prefix, kind
        row = super().add(account, params)
        for spec in params.get("TagSpecifications") or []:
            tags = {tag["Key"]: tag["Value"] for tag in spec.get("Tags") or []}
            account.backend("ec2").create_tags([row[self.identity]], tags)
        return row

    def shown(self, account: Account, row: Row) -> Row:
        """The row with its tags."""
        tags = account.backend("ec2").describe_tags({"resource-id": [row[self.identity]]})
        return {**row, "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in tags]}

    def describe(self, account: Account, params: Params) -> Row:
        """`DescribePlacementGroups`; refuses filters that a rehearsal does not simulate."""
        rows = self.rows(account, params)
        found = [*rows.values()]
        for name in dict.fromkeys((self.key, self.identity)):
            if wanted := params.get(f"{name}s"):
                by_id = {row[name]: row for row in found}
                for value in wanted:
                    if value not in by_id:
                        code, words = self.unknown
                        raise Refusal(code, words.format_map({self.key: value}))
                found = [by_id[item] for item in wanted]
        shown = [self.shown(account, row) for row in found]
        return {self.members or f"{self.member}s": filtered(shown, filters(params), self.filters)}

    def deleted(self, account: Account, row: Row) -> Row:
        account.backend("ec2").tags.pop(row[self.identity], None)
        return {}

    def serve(self) -> None:
        operation(self.service, f"Create{self.noun}")(self.create)
        operation(self.service, f"Describe{self.nouns or self.noun + 's'}")(self.describe)
        operation(self.service, f"Delete{self.noun}")(self.delete)


def filters(params: Params) -> dict[str, list[str]]:
    """The filters of a request to EC2: name -> values."""
    return {condition["Name"]: condition["Values"] for condition in params.get("Filters") or []}


def filtered(
    rows: Iterable[Row], wanted: Mapping[str, Any], members: Mapping[str, str]
) -> list[Row]:
    """The rows with one of the wanted values of each filter; refuses a filter not in `members`."""
    if unknown := wanted.keys() - members.keys():
        words = f"a rehearsal does not simulate the filter {min(unknown)}"
        raise Refusal("InvalidParameterValue", words)
    return [row for row in rows if all(row[members[name]] in wanted[name] for name in wanted)]
