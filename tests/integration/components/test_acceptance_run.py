"""How the measuring program runs its processes, one for each GPU, and what it makes of their ends.

The processes here are small Python programs; drivers and GPUs are simulated.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.gpu.acceptance_program import __main__ as program
from gpu_cluster.components.gpu.acceptance_program import all_reduce
from gpu_cluster.components.gpu.acceptance_request import ThresholdsArgs, request


def python(code: str) -> list[str]:
    return [sys.executable, "-c", f"import os, signal, sys, time\n{code}"]


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ('print("noise"); print(\'{"measures": {}}\')', {"measures": {}}),
        ("os.kill(os.getpid(), signal.SIGSEGV)", {"broken": "its process was ended by signal 11"}),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            {"unmeasured": "its process was killed, perhaps for lack of memory: request more"},
        ),
        ("sys.exit(3)", {"unmeasured": "its process ended with 3; see the log above"}),
        ("", {"unmeasured": "its process ended with 0; see the log above"}),
        ("time.sleep(60)", {"broken": "it did not finish in 2 s"}),
    ],
)
def test_a_gpu_that_hangs_or_kills_its_process_is_broken(
    monkeypatch: pytest.MonkeyPatch, code: str, answer: dict[str, Any]
) -> None:
    """A process that ends by itself with an error has only measured nothing, nor has one that the
    kernel killed for memory."""
    monkeypatch.setattr(program, "_GPU_SECONDS", 2)
    assert program._measured("GPU-1", python(code)) == answer


def test_what_a_library_prints_is_no_answer() -> None:
    """NCCL_DEBUG=INFO prints through C's buffer, which is emptied after the answer."""
    code = (
        f"import ctypes\nfrom {program.__name__} import _answer\n"
        'ctypes.CDLL(None).puts(b"NCCL INFO"); sys.exit(_answer(lambda: {"measures": {}}))'
    )
    found = program._measured("GPU-1", [sys.executable, "-E", *python(code)[1:]])
    assert found == {"measures": {}}


def test_a_process_sees_its_gpu_alone() -> None:
    """By the UUID that the driver gives, so that both mean the same GPU."""
    code = 'print(\'{"seen": "\' + os.environ["CUDA_VISIBLE_DEVICES"] + \'"}\')'
    assert program._measured("GPU-1", python(code)) == {"seen": "GPU-1"}


def test_an_all_reduce_has_a_process_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each knows its rank, all see all GPUs, and what NCCL was told before stays."""
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    code = (
        'names = ("RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE")\n'
        'print(" ".join(os.environ[name] for name in names))'
    )
    assert all_reduce.run(["GPU-1", "GPU-2"], python(code)) == "0 2 GPU-1,GPU-2 0\n"


def test_the_processes_of_several_nodes_meet_at_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks count over all nodes, devices within one; all name the same address."""
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    monkeypatch.setenv("MASTER_ADDR", "gpu-test-p-0.gpu-test-p")
    code = (
        'names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")\n'
        'print(" ".join(os.environ[name] for name in names))'
    )
    printed = all_reduce.run(["GPU-1", "GPU-2"], python(code), nodes=3)
    assert printed == "2 0 6 gpu-test-p-0.gpu-test-p 29500\n"


@pytest.mark.parametrize(
    "code", ['sys.exit(os.environ["RANK"] == "1")', 'os.environ["RANK"] == "1" and time.sleep(60)']
)
def test_an_all_reduce_that_fails_or_hangs_anywhere_has_no_figure(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """One of its processes is enough, and none of them is left behind."""
    monkeypatch.setattr(all_reduce, "_SECONDS", 2)
    assert all_reduce.run(["GPU-1", "GPU-2"], python(code)) is None
    assert all_reduce.run([], python("")) is None


def simulated(name: str, number: int) -> Any:
    """A GPU as the driver would have it."""
    return SimpleNamespace(
        name=name,
        uuid=f"GPU-{number}",
        partitioned=False,
        programs=0,
        limits=dict,
        errors=dict,
    )


def checked(monkeypatch: pytest.MonkeyPatch, gpus: list[Any], **asked: Any) -> dict[str, Any]:
    """The document of a node with these GPUs, each of which measures nothing."""
    monkeypatch.setattr(
        program, "Driver", lambda: SimpleNamespace(version="580.1", gpus=lambda: gpus)
    )
    monkeypatch.setattr(program, "_measured", lambda uuid, command: {"measures": {}, "as": command})
    reduced = json.dumps({"value": 326.0, "unit": "GB/s", "right": True})
    monkeypatch.setattr(all_reduce, "run", lambda uuids, command, nodes=1: reduced)
    given: dict[str, Any] = {"gpus": len(gpus), "expected": [DATA_SHEETS["H200"]], **asked}
    return program.check(request(pool="p", thresholds=ThresholdsArgs(), **given))


def test_every_gpu_is_measured_and_several_are_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data sheet decides the type of the product; two GPUs have an all-reduce."""
    found = checked(monkeypatch, [simulated("NVIDIA H200", 0), simulated("NVIDIA H200", 1)])
    assert [gpu["uuid"] for gpu in found["gpus"]] == ["GPU-0", "GPU-1"]
    assert [gpu["as"][-2:] for gpu in found["gpus"]] == [["--one", "bf16"]] * 2
    assert found["allReduce"]["value"] == 326.0
    assert found["verdict"]["exit"] == 0


def test_one_gpu_has_no_all_reduce(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody to exchange with."""
    assert checked(monkeypatch, [simulated("NVIDIA H200", 0)])["allReduce"] is None


def test_the_network_between_nodes_is_compared_with_the_machine_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """326 GB/s are over half of 3,200 Gbit/s; a broken GPU does not keep other nodes waiting."""
    gpus = [simulated("NVIDIA H200", 0), simulated("NVIDIA H200", 1)]
    found = checked(monkeypatch, gpus, nodes=2, network_gbps=3200)
    (row,) = [row for row in found["verdict"]["rows"] if row["measure"] == "network"]
    assert (row["sheet"], row["least"], row["verdict"]) == (400.0, 0.5, "good")
    gpus[0].partitioned = True
    assert checked(monkeypatch, gpus, nodes=2)["network"]["value"] == 326.0
    # With fewer GPUs than the others, its ranks would be those of others.
    gpus[1].uuid = None
    assert checked(monkeypatch, gpus, nodes=2)["network"] == {}


def test_another_card_than_the_pool_s_is_measured_by_its_own_sheet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An A100 in a pool of H200 is a finding, and not a slow H200."""
    found = checked(monkeypatch, [simulated("NVIDIA A100-SXM4-80GB", 0)])
    assert found["gpus"][0]["sheet"]["model"] == "A100 80GB"
    (finding,) = found["verdict"]["findings"]
    assert finding["kind"] == "wrong GPU model"
    assert finding["message"] == "it is a NVIDIA A100-SXM4-80GB, and the pool has H200"
    assert found["verdict"]["exit"] == 1


def test_a_card_that_nobody_knows_is_measured_without_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes the type that it has, and the exit code says that nothing was compared."""
    found = checked(monkeypatch, [simulated("NVIDIA X1000", 0)])
    assert found["gpus"][0]["as"][-1] == "?"
    assert found["verdict"]["exit"] == 2


def test_a_part_of_a_gpu_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MIG on, whatever the pod has is not the GPU of the data sheet."""
    gpu = simulated("NVIDIA H200", 0)
    gpu.partitioned = True
    found = checked(monkeypatch, [gpu])
    assert "measures" not in found["gpus"][0]
    assert found["verdict"]["exit"] == 2
