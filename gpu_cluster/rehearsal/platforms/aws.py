"""EKS, with a simulated AWS."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES
from gpu_cluster.components.schema.outputs import texts
from gpu_cluster.rehearsal.platforms.simulator import Rehearsed, RunningSimulator
from gpu_cluster.rehearsal.plugins import aws
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer
from gpu_cluster.rehearsal.simulators import inventory
from gpu_cluster.rehearsal.simulators.aws import AwsCloud
from gpu_cluster.rehearsal.simulators.aws.account import Bucket, Existing
from gpu_cluster.rehearsal.simulators.blocks import sizes
from gpu_cluster.rehearsal.simulators.reservations import reservations
from gpu_cluster.rehearsal.simulators.stock import machine_types, stock
from gpu_cluster.stacks.capacity.aws_account import spot_pools
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.settings import config_in
from gpu_cluster.stacks.outcome import CheckError

_SPOT = (
    "roles: the account is assumed to have AWSServiceRoleForEC2Spot, without which Karpenter "
    "starts no Spot instance; gpu-cluster capacity asks your own account"
)


def serve(of: Rehearsed) -> RunningSimulator:
    """Implements `rehearsal.platforms.simulator.Simulator`."""
    ending = ExitStack()
    token = of.folder / "eks-token"

    def admit(granted: bool) -> None:
        known, written = of.control_plane.pki.token_file.read_text(), token.with_suffix(".new")
        written.touch(mode=0o600)
        written.write_text(known if granted else "of-nobody-that-is-known")
        written.replace(token)  # atomically, since it may just be read

    def admins() -> Sequence[str]:
        """The principals named in the stack's file exist; others do not."""
        # Read on each call, since a kept stack's file may change; read as plain YAML, since a
        # program that was changed for a test may accept settings that this one refuses.
        stack_file = of.folder / "program" / f"Pulumi.{of.stack}.yaml"
        with suppress(CheckError, OSError):
            config = config_in(stack_file.read_bytes(), stack_file.name)
            cluster = config["gpu-cluster:cluster"]
            users = (cluster.get("users") or {}).values()
            teams = (config.get("gpu-cluster:teams") or {}).values()
            return [
                *cluster.get("admins", ()),
                *(member for team in teams for member in team["members"]),
                *(arn for user in users for arn in user["principals"]),
            ]
        return ()

    from moto.utilities.utils import get_partition  # of AWS's own list; slow to import

    region = of.settings.own.region if of.settings else ""
    if region and get_partition(region) != "aws":
        raise StackError(
            f"aws:region: {region} is in another partition of AWS, whose IAM is not simulated: "
            "rehearse a copy of the stack file with a region such as us-east-1"
        )
    network, notes = inventory.network(of.stack, of.settings, of.inventories)
    foreign, described = inventory.eks_cluster(of.stack, of.settings, of.inventories)
    inventory.check_karpenter(of.stack, foreign, of.inventories)
    reserved, more = reservations(of.stack, of.settings, network, of.inventories)
    spot = [_SPOT] if of.settings and spot_pools(of.settings.own) else []
    accounts = of.settings.auxiliary.accounts if of.settings else {}
    cloud = AwsCloud(
        control_plane=of.control_plane,
        faults=of.faults,
        existing=Existing(
            network=network,
            cluster=foreign,
            reservations=reserved,
            buckets={
                # If a stack names keys, its buckets are encrypted with one of them.
                name: Bucket(key=next(iter(texts(account.bucket_keys)), ""))
                for account in accounts.values()
                for name in account.buckets
            },
            stock=stock(
                of.stack,
                of.inventories,
                machine="instanceType",
                ways=("spot", "on-demand"),
                machines=machine_types(of.settings.own if of.settings and not foreign else None),
            ),
            blocks=sizes(
                of.stack,
                of.inventories,
                located=[row.name for row in INSTANCE_TYPES.values() if row.located],
                machine="instanceType",
            ),
        ),
        on_access=admit,
        people=admins,
        quota_suffices=True,
        rehearsed=not of.standalone,
    )
    ending.callback(cloud.close)
    if foreign is not None and of.settings is not None:
        cloud.open(of.settings.own.region)
    endpoint = {"AWS_ENDPOINT_URL": cloud.endpoint}
    server = ProviderServer(aws.settings_for(endpoint, of.faults))
    ending.callback(server.stop)
    return RunningSimulator(
        cloud=cloud,
        ports={"aws": server.port},
        api=cloud.endpoint,
        points={
            "AWS_ENDPOINT_URL": cloud.endpoint,
            "AWS_ACCESS_KEY_ID": "simulated",
            "AWS_SECRET_ACCESS_KEY": "simulated",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",  # the only region variable that boto3 reads
        },
        stop=ending.close,
        environment={"REHEARSAL_TOKEN_FILE": str(token), **endpoint},
        notes=(*notes, *described, *more, *spot),
    )
