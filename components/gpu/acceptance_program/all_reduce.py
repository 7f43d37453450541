"""The bandwidth of an all-reduce over all GPUs of some nodes, with NCCL, one process per GPU."""

import importlib
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .measures import figure

WINDOWS = 5
_ROUNDS = 20
_BYTES = 1 << 30
_SECONDS = 240
NODES_SECONDS = 1200
"""Other nodes may start some minutes later."""
_PORT = 29500


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """GB/s over each GPU's links: an all-reduce moves 2 (n - 1) / n of the data over each.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    return size / seconds * 2 * (ranks - 1) / ranks / 1e9


def run(uuids: Sequence[str], command: Sequence[str], nodes: int = 1) -> str | None:
    """Runs `command` once for each GPU; returns the first process's output, or None if one failed
    or there is no GPU.

    `nodes`: how many nodes do so at the same time. With several, they meet at MASTER_ADDR, and
    JOB_COMPLETION_INDEX is the number of this one, from 0. NCCL's environment variables, such as
    NCCL_NVLS_ENABLE, are passed on unchanged.
    """
    if nodes > 1:
        node, host = int(os.environ["JOB_COMPLETION_INDEX"]), os.environ["MASTER_ADDR"]
        port, seconds = _PORT, NODES_SECONDS
    else:
        node, host, seconds = 0, "127.0.0.1", _SECONDS
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
    processes = [
        subprocess.Popen(
            command,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": ",".join(uuids),
                "MASTER_ADDR": host,
                "MASTER_PORT": str(port),
                "RANK": str(node * len(uuids) + rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(nodes * len(uuids)),
                "GPU_TEST_SECONDS": str(seconds),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(len(uuids))
    ]
    end = time.monotonic() + seconds
    try:
        outputs = [one.communicate(timeout=max(1, end - time.monotonic()))[0] for one in processes]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    failed = any(process.returncode for process in processes)
    return None if failed or not outputs else outputs[0]


def worker(torch: Any = None) -> dict[str, Any]:
    """The part of one process; each of them returns the figure of the slowest."""
    torch = torch or importlib.import_module("torch")
    distributed = torch.distributed
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    wait = timedelta(seconds=int(os.environ["GPU_TEST_SECONDS"]))
    distributed.init_process_group("nccl", timeout=wait)
    torch.manual_seed(rank)
    ones = torch.full((1 << 20,), rank + 1.0, device="cuda")
    distributed.all_reduce(ones)
    right = bool((ones == ranks * (ranks + 1) / 2).all())
    data = torch.randn(_BYTES // 4, device="cuda")
    rates = []
    for window in range(WINDOWS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        distributed.barrier(device_ids=[device])
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
