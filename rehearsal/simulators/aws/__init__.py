"""AWS, as far as EKS stacks use it: moto's server, extended. A client needs only
`AWS_ENDPOINT_URL`."""

from rehearsal.simulators.aws.cloud import AwsCloud

__all__ = ["AwsCloud"]
