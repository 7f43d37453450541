"""Models of GPUs, images and prices, and what importing a module of the catalogue loads."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_module_loads_only_its_own_part_of_the_catalogue() -> None:
    """No module loads another cloud's facts, or anything outside the standard library."""
    eks = {"eks", "eks_instances", "images", "kubernetes", "spelling"}
    parts = {
        "accelerators": {"accelerators"},
        "aws_prices": {"aws_prices", "prices", *eks},
        "eks": eks,
        "gke": {
            "gke",
            "gke_accelerators",
            "gke_families",
            "gke_machines",
            "gke_shapes",
            "gke_zones",
            "room",
            "spelling",
        },
        "images": {"images"},
        "kubernetes": {"kubernetes"},
        "prices": {"prices"},
    }
    program = (
        "import sys, importlib\n"
        f"for part in {sorted(parts)!r}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(f'gpu_cluster.components.catalog.{part}')\n"
        "    loaded = set(sys.modules) - before\n"
        "    ours = {name for name in loaded if name.startswith('gpu_cluster')}\n"
        "    rest = {name.partition('.')[0] for name in loaded - ours} - sys.stdlib_module_names\n"
        "    print(part, *sorted(ours), *sorted(rest))\n"
        "    for name in ours: del sys.modules[name]\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {line.split()[0]: set(line.split()[1:]) for line in done.stdout.splitlines()}
    packages = {"gpu_cluster", "gpu_cluster.components", "gpu_cluster.components.catalog"}
    assert loaded == {
        part: packages | {f"gpu_cluster.components.catalog.{name}" for name in names}
        for part, names in parts.items()
    }
