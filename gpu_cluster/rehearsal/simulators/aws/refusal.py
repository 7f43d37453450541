"""A refusal by the simulated AWS, with AWS's error code and message."""

from gpu_cluster.rehearsal.simulators.cloud import RefusedError


class Refusal(RefusedError):
    """An error of the API, with AWS's code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def invalid(words: str) -> Refusal:
    """EKS's error for invalid parameters."""
    return Refusal("InvalidParameterException", words)
