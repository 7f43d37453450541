"""b. The program's imports, compared with the SDK modules of the resources that it registers."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from components.catalog.clouds import CLOUDS
from quality.bench.child import ROOT
from quality.bench.measure import Comparison, Section, alternately
from quality.environments import values_of
from stacks.definition.files import SAMPLES
from stacks.definition.settings import flat

LIMIT = 1.3
POD_KINDS = ("pulumi_kubernetes.apps.v1", "pulumi_kubernetes.batch.v1")
PODS = "pulumi_kubernetes.core.v1"
"""The SDK itself loads it with a kind that has a pod template, for the types of its pods."""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "https://192.0.2.1"}}]
users: [{name: nowhere, user: {token: nobody}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nowhere}}]
"""
"""A kubeconfig without a cluster: a program with mocks contacts none."""


def measure(chosen: Sequence[str], runs: int) -> Section:
    """Measures imports in a fresh process each time, with compiled files and a warm disk cache."""
    rows = []
    for stack in chosen or SAMPLES:
        said = child("modules", flat(values_of(stack)))
        needed = sdk_modules(said["types"])
        ours, theirs = alternately(
            runs, partial(child, "import", said["modules"]), partial(child, "import", needed)
        )
        rows.append(
            Comparison(
                what=f"{stack}: {len(said['modules'])} modules",
                unit="s",
                ours=ours["seconds"],
                theirs=theirs["seconds"],
                limit=LIMIT,
            )
        )
    return Section(
        letter="b",
        title="Imports",
        ours="all that the program loads",
        theirs="only its SDK modules",
        rows=rows,
        notes=[
            "The SDK modules are those of the resource types that the environment registers; what "
            "the program loads is seen in a run of it, in that order. CPU time, disk cache warm."
        ],
    )


def sdk_modules(types: list[str]) -> list[str]:
    """The modules with these types' classes: `pulumi_gcp.container`, `pulumi_kubernetes.apps.v1`.

    A custom resource's type has no module.
    """
    names, clouds = ["pulumi"], {cloud.package for cloud in CLOUDS.values()}
    for token in dict.fromkeys(types):
        package, module, _ = token.split(":")
        if package == "kubernetes":
            group, version = module.split("/")
            custom = "." in group and not group.endswith(".k8s.io")
            names.append(
                "pulumi_kubernetes.apiextensions"
                if custom
                else f"pulumi_kubernetes.{group.partition('.')[0]}.{version}"
            )
        elif package in clouds:
            names.append(f"pulumi_{package.replace('-', '_')}.{module.partition('/')[0].lower()}")
    if any(name in POD_KINDS for name in names):
        names.append(PODS)
    return list(dict.fromkeys(names))


def child(mode: str, given: Any) -> Any:
    """What `child` answers in a fresh process. Raises RuntimeError with the end of its output."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "given.json"
        file.write_text(json.dumps(given))
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG)
        done = subprocess.run(
            [sys.executable, "-m", "quality.bench.child", mode, str(file)],
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"quality.bench.child {mode}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
