"""The documents say what the code says, and lead nowhere that is not there."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES
from gpu_cluster.components.eks.autoscaler_args import EksAutoscalerArgs
from gpu_cluster.components.gke.maintenance_args import GkeMaintenanceArgs
from gpu_cluster.components.gpu.volume_args import VolumeArgs
from gpu_cluster.components.schema.decode import camel, decode
from gpu_cluster.components.settings import load
from gpu_cluster.stacks.definition.files import EXAMPLES, SAMPLES
from gpu_cluster.stacks.definition.validation import refusals
from gpu_cluster.tools.sections import DOCS, README, ROOT, between
from quality import keys
from quality.docs import support_matrix, write
from quality.docs.outputs import PAGE as OUTPUTS
from tests.program.environments import as_engine_config, values_of
from tests.tree import sources

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
PAGES += sorted(DOCS.rglob("*.md"))
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> Iterator[str]:
    """Every link and picture of a page, code left out."""
    yield from _LINK.findall(_CODE.sub("", page.read_text()))


def snippets() -> Iterator[tuple[Path, str]]:
    """Every YAML snippet of all pages, without the indentation of a list that it stands in."""
    for page in PAGES:
        for found in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            yield page, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """A file and an anchor of this repository are there; another address is one of the web."""
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in link:
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[\w./~%+@=?&#-]*)?", link), link
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.is_relative_to(ROOT), link
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_is_linked() -> None:
    """What no page leads to, nobody finds."""
    found = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in links(page)
        if "://" not in link
    }
    assert [page for page in PAGES if page.resolve() not in found and page != README] == []


CONTRIBUTING = [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "contributing").rglob("*.md"))]
READ_FIRST = [README, *CONTRIBUTING, *sorted((DOCS / "getting-started").glob("*.md")),
              *sorted((DOCS / "explanation").glob("*.md")), DOCS / "glossary.md"]  # fmt: skip


@pytest.mark.parametrize("page", READ_FIRST, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_and_cells_are_short(page: Path) -> None:
    """What is longer is not read."""
    long = [
        part
        for line in page.read_text().splitlines()
        for part in (_LINK_TARGET.sub("]", line).split("|") if line.startswith("|") else [line])
        if len(part) > 300
    ]
    assert long == []


def test_recipes_have_three_steps_and_a_commit() -> None:
    """Ask, write, check, and the diff of a commit of this repository, of files that are there."""
    for page in sorted((DOCS / "contributing" / "recipes").glob("*.md")):
        text = page.read_text()
        steps = ["1. Ask", "2. Write", "3. Check", "A real one"]
        assert re.findall(r"^## (.*)", text, re.MULTILINE) == steps, page
        assert "$ make change" in text, page
        assert re.search(r"`git show [0-9a-f]{8}`.*?```diff\n--- ", text, re.DOTALL), page
        files = re.findall(r"^--- (.+)$", text, re.MULTILINE)
        assert [file for file in files if not (ROOT / file).exists()] == [], page


_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_PATH = re.compile(r"`((?:\w+/)+[\w.-]*)`")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name
)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """A table of tasks and files is worth nothing once the files have moved."""
    paths = [path for path in _PATH.findall(page.read_text()) if "inventories/" not in path]
    ours = [path for path in paths if (ROOT / path.partition("/")[0]).is_dir()]
    assert [path for path in ours if not (ROOT / path).exists()] == []


RELIABILITY = DOCS / "explanation" / "reliability.md"


def test_what_never_ran_on_a_real_cloud_is_said_of_this_version() -> None:
    """On the first screen and on the page; a new version has to say again what has run."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    said = f"o part of version {version} has run against a real cloud"
    assert said in README.read_text().partition("## ")[0]
    assert said in RELIABILITY.read_text()


def test_the_examples_install_a_wheel_of_this_version() -> None:
    """By its path: the package is on no index, where anybody could publish one of its name."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    wheel = f"./gpu_cluster-{version}-py3-none-any.whl[stack]\n"
    requirements = {file.read_text() for file in ROOT.glob("examples/*/requirements.txt")}
    assert {text for text in requirements if re.search("gpu.cluster", text)} == {wheel}


def test_a_report_of_a_real_run_asks_for_what_the_page_shows() -> None:
    """The same commands; tests/rehearsal/test_documented_commands.py runs them."""
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/real-cloud-run.yaml").read_text())
    (asked,) = (part["attributes"] for part in form["body"] if part.get("id") == "versions")
    shown = RELIABILITY.read_text().partition("<!-- real-cloud-run -->\n\n```console\n")[2]
    assert asked["value"] == shown.partition("```")[0]


def test_the_autoscaler_s_flags_that_a_rehearsal_reads_are_named() -> None:
    """And no other: the rest has no effect there."""
    flags = {flag for flag in EksAutoscalerArgs().flags("a-cluster") if "-" in flag}
    words = {
        node.value.lstrip("-").partition("=")[0]
        for file in sources("gpu_cluster/rehearsal")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    section = RELIABILITY.read_text().partition("## The autoscaler of a rehearsal")[2]
    named = set(re.findall(r"`([\w-]+)`", section.partition("## ")[0]))
    assert flags & words == flags & named


@pytest.mark.parametrize("page", write.PAGES, ids=lambda page: page.name)
def test_generated_pages_are_up_to_date(page: Path) -> None:
    """`make docs` writes them."""
    assert page.read_text() == write.PAGES[page]()


@pytest.mark.parametrize("file", keys.PAGES)
def test_the_pages_of_config_keys_are_up_to_date(file: str) -> None:
    """Every config key stands there with its type and default; `make docs` writes it."""
    assert (keys.FOLDER / f"{file}.md").read_text() == keys.pages()[file]


def test_the_index_of_config_keys_names_every_platform_and_block() -> None:
    """`make docs` writes its sections."""
    page = (keys.FOLDER / "index.md").read_text()
    assert between(page, "platforms").strip() == keys.platforms()
    assert between(page, "blocks").strip() == keys.shared_blocks()


def test_an_existing_cluster_lists_no_key_that_its_scaler_refuses() -> None:
    """A pool on an existing GKE cluster is a node pool, never a compute class."""
    listed = [page for page in keys.PAGES if "`migrateBack`" in keys.pages()[page]]
    assert listed == ["gke", "gke-autopilot"]


def test_every_config_key_is_explained_in_a_sentence() -> None:
    """With a subject: none begins with a preposition or a participle, and only what stands for a
    table of its own has none."""
    rows = re.findall(r"^\| `([^`]+)` \| .* \| ([^|]*) \|$", keys.markdown(), re.MULTILINE)
    assert len(rows) > 200
    riddle = re.compile(r"(Of|As|With|Where|On|In|Derived|Left out|Has|Such|Never|Not)\b")
    assert [f"{key}: {text}" for key, text in rows if riddle.match(text)] == []
    assert [f"{key} has no docstring" for key, text in rows if not text] == []


def test_what_is_supported_is_what_the_settings_accept() -> None:
    """The page's rows are asked of the settings: some are refused, and not for a misspelt key."""
    text = support_matrix.markdown()
    assert "| gke | yes | yes | yes |" in text
    assert "| gke-autopilot | yes | refused | yes |" in text
    assert "| eks, AL2023 | yes | yes | refused |" in text
    (h100,) = re.findall(r"^\| H100 \|(.*)\|$", text, re.MULTILINE)
    assert "`a3-highgpu-8g`" in h100
    assert "`p5.48xlarge`" in h100


@pytest.mark.parametrize("stack", SAMPLES)
def test_an_output_that_is_left_out_is_said_of_its_platform(stack: str) -> None:
    """The page of outputs names, for each field, the platforms whose pools have none."""
    settings = load.from_config(as_engine_config(values_of(stack)))
    platform = settings.platform.removesuffix("-existing")
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", OUTPUTS.read_text(), re.MULTILINE))
    for resolved in settings.pools.values():
        for field, value in resolved.pool.contract().items():
            said = f"`{platform}`" in rows[field]
            some = f"`{platform}` (some pools)" in rows[field]
            assert some or said == (value is None), field


def test_every_snippet_is_where_the_engine_reads_it() -> None:
    """Below `config:`: pasted at column 0, a key would be one beside it, which the engine
    ignores."""
    found = list(snippets())
    assert any("gpu-cluster:gpuPools:" in snippet for _, snippet in found)
    for page, snippet in found:
        document = yaml.safe_load(snippet)
        if "gpu-cluster:" in snippet.replace("type: gpu-cluster:", ""):
            assert list(document) == ["config"], page


def test_a_setting_is_set_in_the_stack_that_is_named() -> None:
    """Without `-s` the engine writes into whichever stack is selected."""
    commands = [
        command
        for page in PAGES
        for command in re.findall(r"pulumi config set [^`]*gpu-cluster:", page.read_text())
    ]
    assert commands
    assert [command for command in commands if " -s " not in command] == []


def test_no_kubeconfig_is_written_where_others_can_read_it() -> None:
    """Nor into the repository, where the next commit may take it along."""
    writes = [
        line
        for page in PAGES
        for line in page.read_text().splitlines()
        if "stack output kubeconfig" in line
    ]
    assert writes
    assert [one for one in writes if not re.search(r"umask 077;.*> ~/\.kube/", one)] == []
    assert "/kubeconfig*" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_builder_of_snapshots_boots_its_image() -> None:
    """An NVIDIA variant needs an NVIDIA GPU (bottlerocket-kernel-kit, pull request 321)."""
    builders = [
        (kind, image)
        for page in PAGES
        for kind, image in re.findall(r"snapshot\.sh .*-i (\S+) .*-a (\S+)", page.read_text())
    ]
    assert builders
    assert [kind for kind, image in builders
            if "-nvidia/" in image and kind not in INSTANCE_TYPES] == []  # fmt: skip


def test_every_sample_is_in_the_readme() -> None:
    """No environment that comes with the program goes unmentioned; a user's own may."""
    text = README.read_text()
    for stack in SAMPLES:
        assert (EXAMPLES / f"Pulumi.{stack}.yaml").is_file()
        assert f"| `Pulumi.{stack}.yaml` |" in text


def test_the_maintenance_sample_is_one_that_the_settings_take() -> None:
    """Read as YAML, where a time without quotes would be a date."""
    (given,) = [
        yaml.safe_load(snippet)["config"]["gpu-cluster:cluster"]["maintenance"]
        for _, snippet in snippets()
        if "maintenance:" in snippet
    ]
    args = decode("maintenance", GkeMaintenanceArgs, given)
    assert list(args.exclusions) == ["long-run"]


def test_a_release_says_how_its_tag_is_made() -> None:
    """On main, annotated, published; and the states are those of the tag."""
    page = (ROOT / "docs" / "contributing" / "release.md").read_text()
    commands = re.findall(r"^ *\$ (.+)$", page, re.MULTILINE)
    assert [command.split()[:2] for command in commands[-2:]] == [["git", "tag"], ["git", "push"]]
    assert "--annotate vVERSION" in commands[-2]
    assert "python -m quality state-fixtures vVERSION" in page


def test_every_source_of_a_volume_is_explained() -> None:
    """The keys of a volume are its sources, where it is mounted, and how."""
    page = (DOCS / "how-to" / "give-jobs-data.md").read_text()
    section = page.partition("| source |")[2].partition("\n## ")[0]
    rows = re.findall(r"^[|] `(\w+): ", section, re.MULTILINE)
    sources = {camel(field.name) for field in fields(VolumeArgs)} - {"mountPath", "readOnly"}
    assert sorted(rows) == sorted(sources)


def test_the_pools_of_the_page_are_accepted() -> None:
    """Each copied into the sample of its platform."""
    page = DOCS / "how-to" / "write-a-stack-file.md"
    written = [yaml.safe_load(text)["config"] for one, text in snippets() if one == page]
    configs = {
        stack: yaml.safe_load((EXAMPLES / f"Pulumi.{stack}.yaml").read_text())["config"]
        for stack in ("dev", "train", "onprem")
    }
    # The teams' queues hand out pools that the first snippet adds to dev.
    for stack, snippet in zip((*configs, "dev"), written, strict=True):
        for key, block in snippet.items():
            configs[stack][key] = {**configs[stack].get(key, {}), **block}
        assert list(refusals(configs[stack])) == []


@pytest.mark.parametrize("stack", ["dev", "train", "on-eks"])
def test_the_teams_and_users_of_the_page_are_accepted(stack: str) -> None:
    """In the sample that it names; nothing else uses their pool."""
    written = [yaml.safe_load(text)["config"] for page, text in snippets()
               if page.name == "teams.md"]  # fmt: skip
    on_gke, on_eks = written
    snippet = on_gke if stack == "dev" else on_eks
    config = yaml.safe_load((EXAMPLES / f"Pulumi.{stack}.yaml").read_text())["config"]
    config = {key: block for key, block in config.items()
              if key not in ("gpu-cluster:trainingJobs", "gpu-cluster:workloads")}  # fmt: skip
    for key, block in snippet.items():
        config[key] = {**config.get(key, {}), **block}
    assert list(refusals(config)) == []


ONE_SCALER = {
    "queue-and-train.md": "`topologyAware` is refused with the other scalers on EKS",
    "recover.md": "nodes of the other scalers are no resources of a state",
    "simulate-a-cloud.md": "which clients of the simulated AWS were tried, of any program",
}
"""How-to page that names node groups or Cluster Autoscaler and no other scaler -> why."""


def test_a_page_on_node_groups_says_what_other_scalers_do() -> None:
    """Pages written before Karpenter and Auto Mode, or without them in mind, are found so."""
    pages = {page.name: page.read_text() for page in (DOCS / "how-to").glob("*.md")}
    alone = {
        name
        for name, text in pages.items()
        if re.search("Cluster Autoscaler|cluster-autoscaler|node group", text)
        and not re.search("Karpenter|karpenter|Auto Mode", text)
    }
    assert alone == {*ONE_SCALER}
