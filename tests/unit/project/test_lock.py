"""Python packages are installed in the versions, and with the content, that were looked at."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LOCKS = {
    "requirements.txt": "requirements.lock",
    "requirements-jobs.txt": "requirements-dev.lock",
    "requirements-checks.txt": "requirements-dev.lock",
    "requirements-rehearsal.txt": "requirements-dev.lock",
    "requirements-dev.txt": "requirements-dev.lock",
}
PYTHONS = ("3.11.2", "3.12.0", "3.13.0")


def wanted(name: str) -> list[Requirement]:
    """What a requirements file asks for, with what it includes."""
    found = []
    for line in (ROOT / name).read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text.startswith("-r "):
            found += wanted(text.removeprefix("-r "))
        elif text:
            found.append(Requirement(text))
    return found


def locked(name: str) -> dict[str, list[Requirement]]:
    """Package -> its pins, of which markers choose one."""
    found: dict[str, list[Requirement]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if line and not line.startswith(("#", " ")):
            pin = Requirement(line.removesuffix("\\").strip())
            found.setdefault(canonicalize_name(pin.name), []).append(pin)
    return found


def version(pins: list[Requirement], python: str) -> str | None:
    """The version that this Python gets on Linux; None where it gets none."""
    environment = {
        **default_environment(),
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": "linux",
    }
    chosen = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(environment)]
    assert len(chosen) <= 1, chosen
    return str(chosen[0].specifier).removeprefix("==") if chosen else None


@pytest.mark.parametrize("name", LOCKS)
def test_each_requirement_is_locked_within_its_range(name: str) -> None:
    """For every Python that the program supports; `make lock` after a change."""
    pins = locked(LOCKS[name])
    for requirement in wanted(name):
        for python in PYTHONS:
            chosen = version(pins.get(canonicalize_name(requirement.name), []), python)
            assert chosen is not None, requirement
            assert requirement.specifier.contains(chosen, prereleases=True), requirement


@pytest.mark.parametrize("name", LOCKS.values())
def test_each_package_has_a_version_and_hashes(name: str) -> None:
    """Nothing else is in a lock: no index, no path, no URL."""
    text = (ROOT / name).read_text()
    blocks = re.split(r"\n(?=[A-Za-z])", re.sub(r"(?m)^#.*\n", "", text).strip())
    assert len(blocks) > 10
    for block in blocks:
        first, *rest = block.splitlines()
        assert re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z,-]+\])?==[^ ;]+( ; [^\\]+)? \\", first), first
        assert rest
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in rest)
    assert not re.search(r"https?:|--index|--find-links|--trusted|file:", text)


def test_both_locks_agree() -> None:
    """What the program runs with is what it is tested with."""
    own, all_of_it = locked("requirements.lock"), locked("requirements-dev.lock")
    for package, pins in own.items():
        for python in PYTHONS:
            assert version(pins, python) == version(all_of_it[package], python), package


def test_what_locked_packages_need_is_locked() -> None:
    """Read from what is installed here: no dependency of a dependency comes from elsewhere."""
    pins = locked("requirements-dev.lock")
    seen = 0
    for package in pins:
        try:
            needs = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another Python or system
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                seen += 1
                assert canonicalize_name(need.name) in pins, f"{package} needs {need}"
    assert seen > 50


def test_setup_installs_nothing_without_its_hash() -> None:
    """In `make setup`, and so in continuous integration, which installs in no other way. The
    project itself comes last, as a link, with a build tool of the lock and nothing else."""
    makefile = (ROOT / "Makefile").read_text()
    assert makefile.count("pip install") == 1
    packages, project = re.findall(r"'\$\(PIP\) (.*)'", makefile)
    assert packages == "--require-hashes -r requirements-dev.lock"
    assert project == "--no-deps --no-build-isolation --editable ."
    for path in [*(ROOT / ".github" / "workflows").glob("*.yaml"), ROOT / ".ci" / "run"]:
        assert "pip install" not in path.read_text()


def test_the_package_needs_what_the_files_say() -> None:
    """Its extras are the files, and it needs nothing without one; the build tool is locked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dynamic = project["tool"]["setuptools"]["dynamic"]
    assert dynamic == {
        "optional-dependencies": {
            "stack": {"file": ["requirements.txt"]},
            "jobs": {"file": ["requirements-jobs.txt"]},
            "checks": {"file": ["requirements-checks.txt"]},
            "project": {"file": list(LOCKS)[:-1]},
            "dev": {"file": list(LOCKS)},
        }
    }
    assert set(project["project"]["dynamic"]) == set(dynamic)
    (tool,) = map(Requirement, project["build-system"]["requires"])
    pins = locked("requirements-dev.lock")
    for python in PYTHONS:
        assert tool.specifier.contains(version(pins[tool.name], python) or "")
