"""A refusal by the simulated AWS, with AWS's error code and message."""

from rehearsal.simulators.cloud import RefusedError


class Refusal(RefusedError):
    """An error of the API: AWS's code and words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def invalid(words: str) -> Refusal:
    """What is wrong with a request's parameters, as EKS calls it."""
    return Refusal("InvalidParameterException", words)
