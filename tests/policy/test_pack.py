"""The pack as the engine meets it: names, weights, configuration, what a first preview shows."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from pulumi_policy import EnforcementLevel, ResourceValidationPolicy, StackValidationArgs

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.policy.binding import DECLARED, plain
from gpu_cluster.policy.clouds import parts
from gpu_cluster.policy.pack import POLICIES, RULES
from gpu_cluster.policy.reading import UNKNOWN
from tests.policy.cases import RESOURCES, _stack, changed, findings, in_stack
from tests.policy.in_the_cluster import ELSEWHERE, REFUSED
from tests.tree import sources

FOLDER = Path(__file__).parents[2] / "policy"


def test_names_are_unique_and_each_rule_has_a_weight() -> None:
    """At least 15 rules, each mandatory or advisory, each with a severity and a description."""
    assert len({policy.name for policy in POLICIES}) == len(POLICIES) >= 15
    for policy in POLICIES:
        assert policy.enforcement_level in (EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY)
        assert policy.severity is not None
        assert policy.description.endswith(".")
        assert "\n" not in policy.description


def test_every_part_of_a_cloud_belongs_to_a_rule() -> None:
    """To one that consists of such parts, or to what the rules ask a cloud: a misspelt name would
    check nothing. And no cloud's settings of a rule replace another's."""
    own_checks = [
        rule.name for rule in RULES if rule.check.__module__ == "gpu_cluster.policy.binding"
    ]
    rules = {
        "pool",
        "software",
        "autoscaler_tags",
        *(check.replace("-", "_") for check in own_checks),
    }
    for module in (module for cloud in CLOUDS.values() for module in cloud.policies):
        for name, part in vars(import_module(module)).items():
            own = getattr(part, "__module__", "") == module and not name.startswith("_")
            assert not own or name in rules, f"{module}.{name}"
    assert len(own_checks) > 10
    settings = [key for part in parts("PERMISSIONS_TOO_BROAD") for key in part]
    assert len(settings) == len({*settings}) > 1


def test_every_setting_has_a_default_of_its_type() -> None:
    """A pack without any configuration runs; the engine checks what is configured by the schema."""
    types = {"array": list, "string": str, "integer": int, "number": int, "object": dict}
    for policy in POLICIES:
        for key, field in policy.config_schema.properties.items() if policy.config_schema else ():
            # Unset, it is no amount: null is of no type that the engine takes.
            assert key == "dollars" or isinstance(field["default"], types[field["type"]])
            assert field["description"]


def test_configuration_takes_the_place_of_a_default() -> None:
    """A stack is allowed to keep GPU nodes once the configuration names it."""
    running = in_stack(
        changed(RESOURCES["t4-pool"], ("autoscaling", "totalMinNodeCount"), 1), "serving"
    )
    assert findings("gpu-pool-minimum", [running])
    assert findings("gpu-pool-minimum", [running], stacks=["serv*"]) == []


def test_the_first_preview_is_judged_by_inputs() -> None:
    """A Kubernetes object of a cluster to come has no outputs: its inputs, seen before, count."""
    broken = changed(RESOURCES["deployment"], ("spec", "template", "spec", "tolerations"), [])
    (policy,) = [policy for policy in POLICIES if policy.name == "gpu-toleration"]
    assert not isinstance(policy, ResourceValidationPolicy)
    empty = [RESOURCES["t4-pool"], changed(broken, ("spec",), {})]
    said: list[str] = []
    DECLARED.clear()
    policy.validate(
        StackValidationArgs(_stack(empty)), lambda message, urn=None: said.append(message)
    )
    assert said == []
    findings("image-pinned", [broken])  # as the engine does: every resource first, then the stack
    policy.validate(
        StackValidationArgs(_stack(empty)), lambda message, urn=None: said.append(message)
    )
    assert len(said) == 1
    assert said[0].startswith("deployment sample does not tolerate nvidia.com/gpu")


def test_unknown_values_are_read_one_by_one() -> None:
    """One value that is not known leaves the values beside it readable."""
    resource = changed(RESOURCES["t4-pool"], ("nodeConfig", "labels", "role"), UNKNOWN)
    (shown,) = _stack([resource])
    assert plain(shown.props)["nodeConfig"]["labels"] == {"gpu-cluster/pool": "t4", "role": UNKNOWN}


def test_the_project_file_names_an_interpreter_that_setup_makes() -> None:
    """`pulumi preview --policy-pack policy` needs no installation of its own."""
    project = yaml.safe_load((FOLDER / "PulumiPolicy.yaml").read_text())
    assert project["runtime"] == {
        "name": "python",
        "options": {"toolchain": "pip", "virtualenv": "../.venv"},
    }


@pytest.mark.parametrize(
    "path", [*sources("gpu_cluster/policy", "policy")], ids=lambda path: path.name
)
def test_rules_know_the_catalogue_alone(path: Path) -> None:
    """Of this project, the pack imports cloud facts and what Kubernetes means; the rules do not
    know the engine."""
    imported = {
        node.module or ""
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    ours = {name for name in imported if name.startswith("gpu_cluster")}
    known = (
        "gpu_cluster.policy",
        *(f"gpu_cluster.components.{name}" for name in ("catalog", "kube")),
    )
    assert all(name.startswith(known) for name in ours)
    engine = {name for name in imported if name.split(".")[0] in ("pulumi", "pulumi_policy")}
    assert not engine or path.name in ("__main__.py", "binding.py", "pack.py")


def test_what_protects_others_holds_in_the_cluster_too() -> None:
    """A team's members submit jobs that no preview judges: each rule on pods is also one of the
    API server's, or a reason says why it need not be."""
    modules = {
        "gpu_cluster.policy.workloads",
        "gpu_cluster.policy.pod_security",
        "gpu_cluster.policy.host_paths",
        "gpu_cluster.policy.rbac",
    }
    on_pods = {rule.name for rule in RULES if rule.check.__module__ in modules}
    assert on_pods == {*REFUSED, *ELSEWHERE}
    assert not {*REFUSED} & {*ELSEWHERE}
