"""The bandwidth of an all-reduce over all GPUs of the node, with NCCL, one process per GPU."""

import importlib
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from .measures import figure

WINDOWS = 5
_ROUNDS = 20
_BYTES = 1 << 30
_SECONDS = 240


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """GB/s over each GPU's links: an all-reduce moves 2 (n - 1) / n of the data over each.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    return size / seconds * 2 * (ranks - 1) / ranks / 1e9


def run(uuids: Sequence[str], command: Sequence[str]) -> str | None:
    """Runs `command` once for each GPU; returns the first process's output, or None if one failed.

    NCCL's environment variables, such as NCCL_NVLS_ENABLE, are passed on unchanged.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        subprocess.Popen(
            command,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": ",".join(uuids),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "WORLD_SIZE": str(len(uuids)),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(len(uuids))
    ]
    end = time.monotonic() + _SECONDS
    try:
        outputs = [one.communicate(timeout=max(1, end - time.monotonic()))[0] for one in processes]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return None if any(process.returncode for process in processes) else outputs[0]


def worker(torch: Any = None) -> dict[str, Any]:
    """The part of one process; each of them returns the figure of the slowest."""
    torch = torch or importlib.import_module("torch")
    distributed = torch.distributed
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl")
    torch.manual_seed(rank)
    ones = torch.full((1 << 20,), rank + 1.0, device="cuda")
    distributed.all_reduce(ones)
    right = bool((ones == ranks * (ranks + 1) / 2).all())
    data = torch.randn(_BYTES // 4, device="cuda")
    rates = []
    for window in range(WINDOWS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        distributed.barrier(device_ids=[rank])
        begin.record()
        for _ in range(_ROUNDS):
            distributed.all_reduce(data)
        end.record()
        end.synchronize()
        data.mul_(float(ranks) ** -_ROUNDS)  # each round makes the numbers `ranks` times larger
        slowest = torch.tensor([begin.elapsed_time(end) / 1000 / _ROUNDS], device="cuda")
        distributed.all_reduce(slowest, op=distributed.ReduceOp.MAX)
        if window:  # The first window is the warm-up.
            rates.append(bus_bandwidth(_BYTES, slowest.item(), ranks))
    distributed.destroy_process_group()
    return {
        **figure(rates, "GB/s"),
        "gpus": ranks,
        "right": right,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "nvls": os.environ.get("NCCL_NVLS_ENABLE"),
    }
