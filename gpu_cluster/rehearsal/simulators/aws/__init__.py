"""AWS for EKS stacks: moto's server, extended. A client needs only `AWS_ENDPOINT_URL`."""

from gpu_cluster.rehearsal.simulators.aws.cloud import AwsCloud

__all__ = ["AwsCloud"]
