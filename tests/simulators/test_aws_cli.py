"""The simulated AWS through the AWS CLI, with `AWS_ENDPOINT_URL` and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.simulators.aws_account import account, role

AWS = Path(sys.executable).with_name("aws")


def test_the_aws_cli_finds_what_eks_has() -> None:
    """Addons, access entries, the node group and its Auto Scaling group, which it scales."""
    with account() as ml:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.devnull,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_ENDPOINT_URL": ml.cloud.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
        }

        def aws(command: str) -> Any:
            done = subprocess.run(
                [sys.executable, AWS, *command.split(), "--output", "json"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout or "null")

        ml.cluster()
        ml.eks.create_addon(clusterName="ml", addonName="vpc-cni")
        ml.eks.create_access_entry(clusterName="ml", principalArn=role("team/admin"))
        ml.group("train-gpu", scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 1})
        assert aws("eks list-addons --cluster-name ml") == {"addons": ["vpc-cni"]}
        me = f"--principal-arn {role('team/admin')}"
        entry = aws(f"eks describe-access-entry --cluster-name ml {me}")["accessEntry"]
        assert entry["type"] == "STANDARD"
        row = aws("eks describe-nodegroup --cluster-name ml --nodegroup-name train-gpu")
        (group,) = row["nodegroup"]["resources"]["autoScalingGroups"]
        where = f"--auto-scaling-group-name {group['name']}"
        aws(f"autoscaling set-desired-capacity {where} --desired-capacity 2")
        (held,) = aws(f"autoscaling describe-auto-scaling-groups {where}")["AutoScalingGroups"]
        assert [instance["LifecycleState"] for instance in held["Instances"]] == ["InService"] * 2
