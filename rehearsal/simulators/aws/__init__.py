"""AWS, as far as EKS stacks meet it: moto's server, completed. `AWS_ENDPOINT_URL` is all that a
client needs."""

from rehearsal.simulators.aws.cloud import AwsCloud

__all__ = ["AwsCloud"]
