"""One thing wrong at a time in what dev asks of Google Cloud: each fails a rehearsal, in words."""

import pytest

from stacks.program import Mutation
from tests.rehearsal.conftest import Rehearse, edited, said

MUTATIONS: dict[str, tuple[list[Mutation], str]] = {
    "the cluster's credential plugin takes gcloud's account": (
        [
            edited(
                "components/kubeconfig.py",
                '            "args": ["--use_application_default_credentials"],\n',
                "",
            )
        ],
        "getting credentials: exec: ",
    ),
}


@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails in the cloud's words."""
    mutations, message = MUTATIONS[what]
    failures = said(rehearse(*mutations))
    assert any(message in failure for failure in failures), failures
