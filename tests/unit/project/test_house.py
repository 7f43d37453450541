"""The house's own rules: who imports whom, what the table of contents may hold."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests.tree import ROOMS, sources

ROOT = Path(__file__).parents[3]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
MODULES = sorted((ROOT / "components").rglob("*.py"))


def room(path: Path) -> str:
    """The file or folder right below `components/`."""
    return path.relative_to(ROOT / "components").parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module that the file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            inside = module == "components"
            names |= {f"{module}.{alias.name}" for alias in node.names} if inside else {module}
    return names


def test_imports_keep_the_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    """Rooms import downwards, platforms do not know each other, and so on: pyproject.toml."""
    code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_the_contracts_are_about_every_room() -> None:
    """A new folder with Python files is in the contracts too."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == {*CONTRACTS["root_packages"], "components", "tests"} == {*ROOMS, "tests"}


def test_a_newcomer_meets_few_files_and_folders() -> None:
    """Ten modules at a root, and ten folders of the tree (docs/adr/0014-folders.md)."""
    for root in (ROOT, ROOT / "components", ROOT / "gpu_cluster", ROOT / "gpu_cluster/rehearsal"):
        assert len([*root.glob("*.py")]) <= 10, root
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    folders = {name.partition("/")[0] for name in tracked.stdout.splitlines() if "/" in name}
    assert 5 < len({name for name in folders if not name.startswith(".")}) <= 10


EMPTY_WORDS = {"one", "each", "said", "told", "held", "there"}


def test_a_variable_has_the_name_of_what_it_is() -> None:
    """So have functions, classes' fields and attributes. The program of the acceptance test keeps
    its names: it ships in a ConfigMap."""
    found = []
    for path in (path for path in sources() if "acceptance_program" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case (
                    ast.arg(arg=name)
                    | ast.FunctionDef(name=name)
                    | ast.ClassDef(name=name)
                    | ast.Name(id=name, ctx=ast.Store())
                    | ast.Attribute(attr=name, ctx=ast.Store())
                ) if name.lower().strip("_") in EMPTY_WORDS:
                    found.append(f"{path}:{node.lineno} {name}")
    assert found == []


def test_an_exported_verb_names_what_it_acts_on() -> None:
    """Whoever searches for `read` should not find fourteen. Recovery of both clouds has one
    protocol; `gpu_node/namespaces.py` and the acceptance test are programs of their own."""
    verbs = {"read", "check", "write", "find", "look", "compare", "update", "take", "judge"}
    programs = {"acceptance_program", "recovery", "namespaces.py"}
    found = [
        f"{path}: {node.name}"
        for path in sources()
        if not programs & {*path.parts}
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in verbs
    ]
    assert found == []


def test_facts_and_kubernetes_semantics_need_the_standard_library_alone() -> None:
    """Cloud facts, and what Kubernetes means, can be had without Pulumi or any SDK."""
    for path in MODULES:
        if room(path) in ("catalog", "kube", "kubeconfig"):
            roots = {name.split(".")[0] for name in imported(path)}
            assert roots <= {*sys.stdlib_module_names, "components"}, path


def test_the_data_of_the_clouds_needs_no_sdk() -> None:
    """Who reads a row of `gpu_cluster/clouds/` loads neither Pulumi nor a cloud's client."""
    for path in sources("gpu_cluster/clouds"):
        ours = "gpu_cluster.clouds"
        roots = {ours if name.startswith(ours) else name.split(".")[0] for name in imported(path)}
        assert roots <= {*sys.stdlib_module_names, ours, "yaml"}, path


def test_kubernetes_semantics_are_written_once() -> None:
    """No other file has a parser of quantities or a map of the clouds' taint effects; the
    simulators spell the effects themselves, since they judge what the program spells."""
    spelling = re.compile(r"PREFER_NO_SCHEDULE")
    suffixes = re.compile(r"[kK]MGTPE|\"Mi\": 2|\"Ki\": 2")
    for path in sources():
        text, name = path.read_text(), path.relative_to(ROOT).as_posix()
        if name != "components/kube/quantity.py":
            assert not suffixes.search(text), name
        if name != "components/kube/taints.py" and not name.startswith(
            ("gpu_cluster/rehearsal/plugins/", "gpu_cluster/rehearsal/simulators/")
        ):
            assert not spelling.search(text), name


def test_components_import_each_other_relatively() -> None:
    """And nobody imports `components` itself, which the wheel does not have."""
    absolute = re.compile(r"^\s*(?:from|import) (?:gpu_cluster\.)?components\b", re.MULTILINE)
    assert [path for path in MODULES if absolute.search(path.read_text())] == []
    by_itself = re.compile(r"^\s*(?:from|import) components\b", re.MULTILINE)
    files = [*sources(), *sources("tests", "examples", "policy"), ROOT / "__main__.py"]
    assert [path for path in files if by_itself.search(path.read_text())] == []


def test_settings_load_no_cloud_sdk() -> None:
    """A bad config is refused before a large SDK is loaded."""
    for path in MODULES:
        if room(path) == "settings" or path.stem.endswith("_args"):
            assert not {"pulumi_gcp", "pulumi_aws"} & imported(path)


def test_only_settings_read_the_config() -> None:
    """No component has a config key of its own."""
    for path in MODULES:
        if room(path) != "settings":
            assert "pulumi.Config(" not in path.read_text()


BY_PROCESS_ID = {
    "gpu_cluster/rehearsal/lock.py:_signal": "the lock names the holder's namespace",
    "gpu_cluster/rehearsal/engine/fork_server.py:_obey": "this process",
    "gpu_cluster/rehearsal/gpu_node/namespaces.py:main": "a child that was not waited for",
    "gpu_cluster/rehearsal/processes.py:kill_tree": "a child that was not waited for",
    "gpu_cluster/rehearsal/processes.py:visible": "compares the namespaces",
    "gpu_cluster/rehearsal/report/progress.py:_end_without_reader": "this process",
    "gpu_cluster/rehearsal/report/progress.py:print": "this process",
    "gpu_cluster/stacks/recovery/lock.py:_alive": "proves nothing alone: the module's docstring",
}
"""Function that finds a process by its ID -> why the ID is that process's. Elsewhere it may be that
of another process: containers share files, not process IDs."""


def test_a_process_id_is_only_used_where_it_is_valid() -> None:
    """A kept rehearsal's ID, read in another container, once ended a process of that container."""
    found = set[str]()
    for path in sources():
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and any(
                isinstance(node, ast.Call)
                and re.fullmatch(
                    r"(os\.(kill|killpg|pidfd_open)|psutil\.(Process|process_iter|pid_exists))",
                    ast.unparse(node.func),
                )
                for node in ast.walk(function)
            ):
                found.add(f"{path.relative_to(ROOT).as_posix()}:{function.name}")
    assert found == set(BY_PROCESS_ID)


WITH_THE_USERS_ENVIRONMENT = {
    "gpu_cluster/rehearsal/change.py": "git, in the user's checkout",
    "gpu_cluster/rehearsal/engine/fork_server.py": "a copy of it gets its launcher's environment",
    "gpu_cluster/rehearsal/gpu_node/machine.py": "nvidia-smi",
    "gpu_cluster/rehearsal/gpu_node/pytorch.py": "the machine's own Python, and ldd",
    "gpu_cluster/rehearsal/holder.py": "builds programs, through a proxy",
    "gpu_cluster/rehearsal/existing/inventory_file.py": "reads the user's real cluster",
    "gpu_cluster/rehearsal/engine/proxied_plugin.py": "the engine's environment",
}
"""File of the rehearsal that starts a program without saying its environment -> why it may."""


def test_what_a_rehearsal_starts_gets_its_environment_from_one_list() -> None:
    """`processes.base_env`: credentials, kubeconfigs and proxies of the user reach no program."""
    inherits = set[str]()
    for path in sources("gpu_cluster/rehearsal"):
        name, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                starts = r"(subprocess\.(run|Popen|check_\w+)|(processes\.)?spawn_supervised)"
                keywords = {keyword.arg for keyword in node.keywords}
                if re.fullmatch(starts, ast.unparse(node.func)) and not keywords & {"env", None}:
                    inherits.add(name)
            elif isinstance(node, ast.Dict) and None in node.keys:
                whole = [v for k, v in zip(node.keys, node.values, strict=True) if k is None]
                copied = [v for v in whole if ast.unparse(v) == "os.environ"]
                assert not copied or name == "gpu_cluster/rehearsal/gpu_node/namespaces.py", name
    assert inherits == set(WITH_THE_USERS_ENVIRONMENT)


def test_an_interpreter_s_path_is_quoted() -> None:
    """In a clone whose path has blanks, scripts and commands with the bare path do not start."""
    bare = re.compile(r"#!\{|['\"]\{sys\.executable\} -")
    files = sources(*ROOMS, "tests")
    found = {file for file in files if bare.search(file.read_text())}
    assert found == {ROOT / "gpu_cluster" / "tools" / "scripts.py"}
