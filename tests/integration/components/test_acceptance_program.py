"""The program that measures GPUs: its arithmetic and its verdict, on a measured H100's document."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.gpu.acceptance_program.report import result_in
from gpu_cluster.components.gpu.acceptance_program.verdict import UNMEASURED
from gpu_cluster.components.gpu.acceptance_request import ThresholdsArgs, request
from tests.unit.components.test_acceptance_program import ROOT


def test_it_runs_from_a_folder_of_its_own_and_says_that_there_is_no_driver(tmp_path: Path) -> None:
    """As in a pod: the modules and a request in one folder, nothing of this project around."""
    shutil.copytree(ROOT / "components" / "gpu" / "acceptance_program", tmp_path / "gpu_test")
    asked = request(
        pool="train",
        gpus=1,
        expected=[DATA_SHEETS["T4"]],
        thresholds=ThresholdsArgs(),
    )
    (tmp_path / "gpu_test" / "request.json").write_text(json.dumps(asked))
    done = subprocess.run(
        [sys.executable, "-m", "gpu_test"],
        cwd=tmp_path,
        # A machine with a driver must not be measured here.
        env={"LD_LIBRARY_PATH": "", "PYTHONDONTWRITEBYTECODE": "1", "GPU_CHECK_NVML": "/none"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == UNMEASURED, done.stderr
    found = result_in(done.stdout)
    assert found is not None
    assert found["pool"] == "train"
    (finding,) = found["verdict"]["findings"]
    assert finding["message"].startswith("the NVIDIA driver cannot be queried: ")
