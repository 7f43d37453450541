"""The README says what the code says."""

import re

import yaml

from cli.docs import keys, policy_docs, readme
from components.decode import decode
from components.gke.maintenance_args import GkeMaintenanceArgs
from policy.pack import RULES
from stacks.files import EXAMPLES, SAMPLES
from tools.sections import README, between


def test_the_table_of_config_keys_is_up_to_date() -> None:
    """Every config key stands in the README with its type and default; `make readme` writes it."""
    assert between(README.read_text(), "keys").strip() == keys.markdown().strip()


def test_every_snippet_is_where_the_engine_reads_it() -> None:
    """Pasted at column 0, a key of the config is one beside it, which the engine ignores."""
    text = README.read_text()
    snippets = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert any("gpu-cluster:gpuPools:" in snippet for snippet in snippets)
    assert [one for one in snippets if re.search(r"^gpu-cluster:", one, re.MULTILINE)] == []


def test_a_setting_is_set_in_the_stack_that_is_named() -> None:
    """Without `-s` the engine writes into whichever stack is selected."""
    commands = re.findall(r"pulumi config set [^`]*gpu-cluster:", README.read_text())
    assert commands
    assert [one for one in commands if " -s " not in one] == []


def test_no_kubeconfig_is_written_where_others_can_read_it() -> None:
    """Nor into the repository, where the next commit may take it along."""
    writes = re.findall(r"[^`]*kubeconfig[^`]*> [^`]*", README.read_text())
    writes = [one for one in writes if "stack output" in one]
    assert writes
    assert [one for one in writes if not re.search(r"umask 077;.*> ~/\.kube/", one)] == []
    assert "/kubeconfig*" in (readme.ROOT / ".gitignore").read_text().splitlines()


def test_the_page_of_policies_is_up_to_date() -> None:
    """Every rule with its weight, reason, settings and defaults; `make readme` writes it."""
    page = policy_docs.PAGE.read_text()
    assert page == policy_docs.markdown()
    for rule in RULES:
        assert f"| `{rule.name}` |" in page


def test_every_sample_is_in_the_readme() -> None:
    """No environment that comes with the program goes unmentioned; a user's own may."""
    text = README.read_text()
    for stack in SAMPLES:
        assert (EXAMPLES / f"Pulumi.{stack}.yaml").is_file()
        assert f"| `{stack}` |" in text


def test_the_maintenance_sample_is_one_that_the_settings_take() -> None:
    """Read as YAML, where a time without quotes would be a date."""
    text = README.read_text()
    sample = text[text.index("    maintenance: # of") :].partition("```")[0]
    given = yaml.safe_load(sample)["maintenance"]
    args = decode("maintenance", GkeMaintenanceArgs, given)
    assert list(args.exclusions) == ["long-run"]
