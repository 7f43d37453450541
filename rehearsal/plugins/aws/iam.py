"""IAM roles, OpenID Connect providers, and what IAM's resource types have in common."""

from collections.abc import Callable, Mapping
from typing import Any

from rehearsal.plugins.aws.documents import document_text
from rehearsal.plugins.aws.kind import Kind, mapping, pairs, pick


class IamKind(Kind):
    """A resource of IAM, which has no region."""

    regional = False
    computed = ()

    @property
    def iam(self) -> Any:
        """A client of IAM."""
        return self.api.client("iam")


class Role(IamKind):
    """An IAM role."""

    token = "aws:iam/role:Role"
    documents = ("assumeRolePolicy",)
    supported_inputs = (
        "name", "path", "assumeRolePolicy", "description", "maxSessionDuration",
        "forceDetachPolicies", "permissionsBoundary", "tags",
    )  # fmt: skip

    def create(self, inputs: dict[str, Any]) -> str:
        given = {
            "RoleName": inputs["name"],
            "Path": inputs["path"],
            "AssumeRolePolicyDocument": inputs["assumeRolePolicy"],
            "MaxSessionDuration": inputs["maxSessionDuration"],
            "Description": inputs.get("description"),
            "PermissionsBoundary": inputs.get("permissionsBoundary"),
            "Tags": pairs(inputs["tagsAll"]),
        }
        self.iam.create_role(**{name: value for name, value in given.items() if value})
        return str(inputs["name"])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.iam.get_role(RoleName=identity)["Role"]
        now = pick(row, {
            "arn": "Arn",
            "name": "RoleName",
            "path": "Path",
            "description": "Description",
            "uniqueId": "RoleId",
            "maxSessionDuration": "MaxSessionDuration",
        })  # fmt: skip
        return now | {
            "createDate": row["CreateDate"].strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tagsAll": mapping(row.get("Tags")),
            "assumeRolePolicy": document_text(
                row["AssumeRolePolicyDocument"], state.get("assumeRolePolicy")
            ),
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("assumeRolePolicy") != new["assumeRolePolicy"]:
            self.iam.update_assume_role_policy(
                RoleName=identity, PolicyDocument=new["assumeRolePolicy"]
            )
        if any(old.get(name) != new.get(name) for name in ("description", "maxSessionDuration")):
            self.iam.update_role(
                RoleName=identity,
                Description=new.get("description", ""),
                MaxSessionDuration=new["maxSessionDuration"],
            )
        boundary = new.get("permissionsBoundary")
        if old.get("permissionsBoundary") != boundary:
            if boundary:
                self.iam.put_role_permissions_boundary(
                    RoleName=identity, PermissionsBoundary=boundary
                )
            else:
                self.iam.delete_role_permissions_boundary(RoleName=identity)

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        if gone:
            self.iam.untag_role(RoleName=identity, TagKeys=gone)
        self.iam.tag_role(RoleName=identity, Tags=pairs(tags))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if state.get("forceDetachPolicies"):
            attached = self.iam.list_attached_role_policies(RoleName=identity)["AttachedPolicies"]
            for each in attached:
                self.iam.detach_role_policy(RoleName=identity, PolicyArn=each["PolicyArn"])
            for name in self.iam.list_role_policies(RoleName=identity)["PolicyNames"]:
                self.iam.delete_role_policy(RoleName=identity, PolicyName=name)
        self.iam.delete_role(RoleName=identity)


class OpenIdConnectProvider(IamKind):
    """An identity provider for the tokens of service accounts."""

    token = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
    supported_inputs = ("url", "clientIdLists", "thumbprintLists", "tags")

    def create(self, inputs: dict[str, Any]) -> str:
        answer = self.iam.create_open_id_connect_provider(
            Url=inputs["url"],
            ClientIDList=inputs["clientIdLists"],
            ThumbprintList=inputs.get("thumbprintLists") or ["0" * 40],
            Tags=pairs(inputs["tagsAll"]),
        )
        return str(answer["OpenIDConnectProviderArn"])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.iam.get_open_id_connect_provider(OpenIDConnectProviderArn=identity)
        return {
            "arn": identity,
            "clientIdLists": row["ClientIDList"],
            "thumbprintLists": row["ThumbprintList"],
            "tagsAll": mapping(row.get("Tags")),
        }

    def same(self, path: str, old: Any, new: Any) -> bool:
        def bare(url: Any) -> str:
            return str(url).removeprefix("https://")

        return path == "url" and bare(old) == bare(new)

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        before, after = old["clientIdLists"], new["clientIdLists"]
        calls: list[tuple[Callable[..., Any], list[str]]] = [
            (self.iam.add_client_id_to_open_id_connect_provider, list(set(after) - set(before))),
            (
                self.iam.remove_client_id_from_open_id_connect_provider,
                list(set(before) - set(after)),
            ),
        ]
        for call, ids in calls:
            for each in ids:
                call(OpenIDConnectProviderArn=identity, ClientID=each)
        if new.get("thumbprintLists") and new["thumbprintLists"] != old.get("thumbprintLists"):
            self.iam.update_open_id_connect_provider_thumbprint(
                OpenIDConnectProviderArn=identity, ThumbprintList=new["thumbprintLists"]
            )

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        if gone:
            self.iam.untag_open_id_connect_provider(OpenIDConnectProviderArn=identity, TagKeys=gone)
        self.iam.tag_open_id_connect_provider(OpenIDConnectProviderArn=identity, Tags=pairs(tags))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=identity)
