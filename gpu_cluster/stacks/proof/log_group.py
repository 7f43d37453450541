"""The log group that EKS may create again after a destroy, without retention."""

from typing import Any

import botocore.exceptions

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.aws_session import session


def remaining_logs(settings: Settings[Any], endpoint: str | None) -> list[str]:
    """The log group of a stack's destroyed cluster if it exists again with logs, or if AWS does not
    answer; an empty one is deleted. `endpoint`: the URL of a simulator."""
    platform = PLATFORMS[settings.platform]
    if platform.cloud != "aws" or not platform.owned:
        return []
    name = f"/aws/eks/{settings.cluster.name}/cluster"
    try:
        logs: Any = session(settings.own.provider, endpoint).client("logs", endpoint_url=endpoint)
        groups = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        if name not in [group["logGroupName"] for group in groups]:
            return []
        if not logs.describe_log_streams(logGroupName=name, limit=1)["logStreams"]:
            logs.delete_log_group(logGroupName=name)
            return []
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        return [f"perhaps the log group {name}, which EKS may create again: AWS: {error}"]
    region = settings.own.provider.region
    how = f"aws logs delete-log-group --region {region} --log-group-name {name}"
    return [f"log group {name}, which EKS created again with its last logs: {how}"]
