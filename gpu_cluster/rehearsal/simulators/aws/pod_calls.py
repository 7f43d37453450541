"""Whether a pod's role allows the AWS calls that the pod makes, such as Karpenter's controller.

The actions' resources and condition keys are those of the "Service Authorization Reference"
(docs.aws.amazon.com/service-authorization, read 2026-11-24; cfn-lint 1.58.0 has the resources), as
far as the policy that upstream publishes for its controller uses them.
"""

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws import auto_mode
from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account, Denied, Pod
from gpu_cluster.rehearsal.simulators.aws.disk_keys import own_keys
from gpu_cluster.rehearsal.simulators.aws.eks import identified_at
from gpu_cluster.rehearsal.simulators.aws.evaluation import Context, allowed
from gpu_cluster.rehearsal.simulators.aws.launch_templates import named_template
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.roles import policies, role_name
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster

_CODES = {"ec2": "UnauthorizedOperation", "ssm": "AccessDeniedException",
          "eks": "AccessDeniedException", "pricing": "AccessDeniedException"}  # fmt: skip
"""Service -> the error code of its refusals; the others use AccessDenied."""
_AS_THE_CLUSTER = ("CreateFleet", "RunInstances", "CreateLaunchTemplate")
"""Actions of EKS Auto Mode that use the cluster's role (AmazonEKSComputePolicy)."""
Need = tuple[str, str, Context]
"""Action, resource, and the resource's condition keys."""


def key_for(account: Account, pod: Pod, made: float) -> str:
    """An access key for the pod's role. Raises Refusal, with a sentence, if the pod gets no role;
    `made`: when the pod was created, in seconds since 1970."""
    who = f"the pod of service account {pod.namespace}/{pod.service_account}"
    cluster = account.clusters[pod.cluster]
    if cluster.association(pod.namespace, pod.service_account) is None:
        raise Refusal("NoRole", f"{who} has no role: there is no pod identity association for it")
    if not cluster.identity_agent:
        raise Refusal("NoRole", f"{who} gets no role: no eks-pod-identity-agent addon is there")
    effective = identified_at(cluster, (pod.namespace, pod.service_account))
    if effective is not None and made + 1 <= effective:
        raise Refusal("NoRole", f"{who} gets no role: it was created before its pod identity "
                      "association took effect")  # fmt: skip
    key = f"ASIA{secrets.token_hex(8).upper()}"
    account.pods[key] = pod
    return key


def check_caller(account: Account, service: str, name: str, params: Mapping[str, Any]) -> None:
    """Raises Refusal if the caller is a pod whose role does not allow this call."""
    check_key(account, account.asking.response.get_access_key(), service, name, params)


def check_key(
    account: Account, key: str, service: str, name: str, params: Mapping[str, Any]
) -> None:
    """Like `check`, for the caller with this access key."""
    pod = account.pods.get(key)
    if pod is None:
        return
    if pod.automatic and (service != "ec2" or name not in _AS_THE_CLUSTER):
        return  # EKS's own service-linked role
    for need in _needs(account, service, name, params):
        if (refused := refusal(account, pod, need)) is not None:
            raise refused


def caller(account: Account) -> Pod | None:
    """The calling pod; None for any other caller."""
    return account.pods.get(account.asking.response.get_access_key())


def refusal(account: Account, pod: Pod, need: Need) -> Refusal | None:
    """The refusal, which is recorded, if the pod's role does not allow the action; or None."""
    action, resource, own = need
    cluster = account.clusters.get(pod.cluster)
    role = _role(cluster, pod) if cluster else ""
    context: Context = {
        "aws:RequestedRegion": account.region,
        f"aws:PrincipalTag/{'eks:' if pod.automatic else ''}eks-cluster-name": pod.cluster,
        "aws:PrincipalTag/kubernetes-namespace": pod.namespace,
        "aws:PrincipalTag/kubernetes-service-account": pod.service_account,
        **own,
    }
    if role and allowed(policies(account, role), action, resource, context):
        return None
    denied = Denied(
        pod=pod, role=role, action=action, resource=resource, context=tuple(sorted(context.items()))
    )
    if not any((d.role, d.action) == (role, action) for d in account.denied):
        account.denied.append(denied)
    user = f"arn:aws:sts::{NUMBER}:assumed-role/{role_name(role)}/{pod.service_account or 'eks'}"
    return Refusal(
        _CODES.get(action.partition(":")[0], "AccessDenied"),
        "You are not authorized to perform this operation. User: "
        f"{user} is not authorized to perform: {action} on resource: {resource} because no "
        f"identity-based policy allows the {action} action",
    )


def _role(cluster: Cluster, pod: Pod) -> str:
    if pod.automatic:
        return str(cluster.row["roleArn"])
    association = cluster.association(pod.namespace, pod.service_account)
    return str(association["roleArn"]) if association else ""


def still_denied(account: Account) -> Iterator[str]:
    """The recorded calls that the current policies still do not allow, one line each."""
    for denied in account.denied:
        documents = policies(account, denied.role)
        if not allowed(documents, denied.action, denied.resource, dict(denied.context)):
            yield (
                f"{denied.pod.words} with its role "
                f"{role_name(denied.role)} may not do {denied.action} on {denied.resource}"
            )


def launch_needs(
    account: Account, data: Mapping[str, Any], tags: Mapping[str, Any], *, spot: bool = False
) -> list[Need]:
    """The permissions needed to launch an instance of this launch template, in addition to the
    call's own action. `tags`: by resource type, as in the request; the template has more."""
    tags = _as_judged(account, {**request_tags(data), **tags})
    used = [
        *_shared(account, data),
        *(
            account.arn("ec2", f"security-group/{group}")
            for interface in data.get("NetworkInterfaces") or []
            for group in interface.get("Groups") or []
        ),
        *(
            f"arn:aws:ec2:{account.region}::snapshot/{mapping['Ebs']['SnapshotId']}"
            for mapping in data.get("BlockDeviceMappings") or []
            if (mapping.get("Ebs") or {}).get("SnapshotId")
        ),
    ]
    needs: list[Need] = [("ec2:RunInstances", resource, {}) for resource in used]
    made = ("instance", "volume", "network-interface", *(["spot-instances-request"] * spot))
    for kind in made:
        needs += _tagged("ec2:RunInstances", account.arn("ec2", f"{kind}/*"), tags.get(kind, {}))
    pod = caller(account)
    if pod is not None and not pod.automatic:
        needs += _key_needs(account, data)
    if profile := (data.get("IamInstanceProfile") or {}).get("Name"):
        needs += _passed(account, profile)
    return needs


def _shared(account: Account, data: Mapping[str, Any]) -> Iterator[str]:
    """The existing resources of a launch template for which both RunInstances and CreateFleet ask
    for permission."""
    yield f"arn:aws:ec2:{account.region}::image/{data.get('ImageId')}"
    yield account.arn("ec2", "subnet/subnet-0")
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    if reservation := target.get("CapacityReservationId"):
        yield account.arn("ec2", f"capacity-reservation/{reservation}")
    if group := data.get("Placement"):
        yield account.arn("ec2", f"placement-group/{group.get('GroupName') or '*'}")


def _key_needs(account: Account, data: Mapping[str, Any]) -> Iterator[Need]:
    """The permissions to encrypt disks with their own key, which EC2 uses on behalf of the caller:
    https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html"""
    through: Context = {"kms:ViaService": f"ec2.{account.region}.amazonaws.com"}
    for key in own_keys(account, data):
        arn = key if key.startswith("arn:") else account.arn("kms", f"key/{key}")
        yield "kms:CreateGrant", arn, {**through, "kms:GrantIsForAWSResource": "true"}
        for name in ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext",
                     "ReEncryptFrom", "ReEncryptTo"):  # fmt: skip
            yield f"kms:{name}", arn, through


def _as_judged(
    account: Account, tags: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Mapping[str, str]]:
    """A request's tags under the names that the caller's policies use."""
    pod = caller(account)
    if pod is None or not pod.automatic:
        return tags
    return {kind: auto_mode.request_tags(own) for kind, own in tags.items()}


def _passed(account: Account, profile: str) -> Iterator[Need]:
    known = account.backend("iam").instance_profiles
    for pod in known.values():
        if pod.name == profile:
            for role in pod.roles:
                yield "iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"}


def request_tags(params: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Resource type -> tags in `TagSpecifications`."""
    return {
        spec["ResourceType"]: {tag["Key"]: tag["Value"] for tag in spec.get("Tags") or []}
        for spec in params.get("TagSpecifications") or []
    }


def _tagged(action: str, arn: str, tags: Mapping[str, str]) -> Iterator[Need]:
    """The permissions to create a tagged resource: one to create it, one to tag it on creation."""
    context: Context = {
        **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        "aws:TagKeys": tuple(tags),
    }
    yield action, arn, context
    if tags:
        yield "ec2:CreateTags", arn, {**context, "ec2:CreateAction": action.partition(":")[2]}


def _of_resource(account: Account, identity: str) -> tuple[str, Context]:
    """ARN and tags of an EC2 resource."""
    kind = {"i": "instance", "lt": "launch-template", "vol": "volume"}.get(
        identity.rpartition("-")[0], "*"
    )
    tags = account.backend("ec2").tags.get(identity, {})
    return account.arn("ec2", f"{kind}/{identity}"), {
        f"{prefix}:ResourceTag/{key}": value
        for key, value in tags.items()
        for prefix in ("aws", "ec2")
    }


def _needs(account: Account, service: str, name: str, params: Mapping[str, Any]) -> Iterator[Need]:
    if service == "ec2":
        yield from _of_ec2(account, name, params)
    elif service == "iam":
        yield from _of_iam(account, name, params)
    else:
        yield f"{service}:{name}", _elsewhere(account, service, params), {}


def _elsewhere(account: Account, service: str, params: Mapping[str, Any]) -> str:
    if service == "ssm":
        return f"arn:aws:ssm:{account.region}::parameter{params.get('Name', '')}"
    if service == "sqs":
        queue = params.get("QueueName") or str(params.get("QueueUrl")).rpartition("/")[2]
        return account.arn("sqs", queue)
    if service == "eks" and "name" in params:
        return account.arn("eks", f"cluster/{params['name']}")
    return "*"


def _of_ec2(account: Account, name: str, params: Mapping[str, Any]) -> Iterator[Need]:
    action, tags = f"ec2:{name}", _as_judged(account, request_tags(params))
    if name in ("CreateFleet", "RunInstances"):
        for config in params.get("LaunchTemplateConfigs") or [params]:
            reference = config.get("LaunchTemplateSpecification") or config.get("LaunchTemplate")
            template = named_template(account, reference or {})
            if template is not None:
                for either in {action, "ec2:RunInstances"}:
                    yield either, *_of_resource(account, template.id)
                if name == "RunInstances":
                    yield from launch_needs(account, template.versions[-1].data, tags)
                else:
                    for resource in _shared(account, template.versions[-1].data):
                        yield action, resource, {}
        kinds = ("fleet",) if name == "CreateFleet" else ("network-interface",)
        for kind in (*kinds, "instance", "volume"):
            yield from _tagged(action, account.arn("ec2", f"{kind}/*"), tags.get(kind, {}))
    elif name == "CreateLaunchTemplate":
        arn = account.arn("ec2", "launch-template/*")
        yield from _tagged(action, arn, tags.get("launch-template", {}))
    elif name in ("TerminateInstances", "DeleteLaunchTemplate"):
        template = named_template(account, params)
        ids = params.get("InstanceIds") or ([template.id] if template else [])
        for identity in ids:
            yield action, *_of_resource(account, identity)
    elif name == "CreateTags":
        given = {tag["Key"]: tag["Value"] for tag in params.get("Tags") or []}
        for identity in params["Resources"]:
            arn, own = _of_resource(account, identity)
            asked = {f"aws:RequestTag/{key}": value for key, value in given.items()}
            yield action, arn, {**own, **asked, "aws:TagKeys": tuple(given)}
    else:
        yield action, "*", {}


def _of_iam(account: Account, name: str, params: Mapping[str, Any]) -> Iterator[Need]:
    profile = params.get("InstanceProfileName")
    if profile is None:
        yield f"iam:{name}", "*", {}
        return
    known = [p for p in account.backend("iam").instance_profiles.values() if p.name == profile]
    path = known[0].path if known else params.get("Path") or "/"
    arn = f"arn:aws:iam::{NUMBER}:instance-profile{path}{profile}"
    given = {tag["Key"]: tag["Value"] for tag in params.get("Tags") or []}
    context: Context = {f"aws:RequestTag/{key}": value for key, value in given.items()}
    for tag in known[0].tags if known else []:
        context = {**context, f"aws:ResourceTag/{tag['Key']}": tag["Value"]}
    yield f"iam:{name}", arn, context
    if name == "CreateInstanceProfile" and given:
        yield "iam:TagInstanceProfile", arn, context
    if name == "AddRoleToInstanceProfile":
        roles = [r for r in account.backend("iam").get_roles() if r.name == params["RoleName"]]
        for role in roles:
            yield "iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"}
