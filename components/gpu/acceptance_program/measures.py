"""Measures one GPU: matrix products, memory and host link, and its clocks under load.

Every figure is the median of `WINDOWS` windows of `WINDOW_SECONDS`, on random data (zeros draw less
power and run faster), after a warm-up, timed by events on the GPU.
"""

import importlib
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .nvml import Gpu

WINDOWS = 7
WINDOW_SECONDS = 0.3
_WARM_UP_SECONDS = 1.0
_TRIAL_SECONDS = 0.1
_SAMPLE_SECONDS = 0.05
_SIZES = (8192, 16384)
_GIB = 1 << 30
_HOST_BYTES = _GIB // 4
_NO_KERNEL = "no kernel image is available"
"""CUDA's error if PyTorch was not built for the GPU: its wheels omit older ones."""

Work = Callable[[], object]


def measure(matrix: str | None, gpu: Gpu, torch: Any = None) -> dict[str, Any]:
    """Measures the first GPU that PyTorch sees, which must be `gpu`.

    `matrix` is the 16-bit type to multiply: bf16, fp16 or None for neither; `?` chooses what the
    GPU supports. Raises PyTorch's exceptions.
    """
    torch = torch or importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")  # no TF32
    if matrix == "?":
        matrix = "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"
    free, total = torch.cuda.mem_get_info()
    idle = gpu.state()
    measures: dict[str, Any] = {}
    products: dict[str, Any] = {}
    loads = []
    for name in ([matrix] if matrix else []) + ["fp32"]:
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]
        measures[name], products[name], load = _product(torch, kind, free, gpu)
        loads.append(load)
        torch.cuda.empty_cache()
    measures.update(_memory(torch, free))
    torch.cuda.empty_cache()
    measures.update(_host_link(torch))
    return {
        "memoryBytes": total,
        "measures": measures,
        "products": products,
        "idle": idle,
        "load": loads[0],  # Of the 16-bit product if there is one, because it draws the most power.
        "software": {"torch": torch.__version__, "cuda": torch.version.cuda},
    }


def _product(
    torch: Any, kind: Any, free: int, gpu: Gpu
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The fastest of several square products in TFLOP/s, its correctness, and the GPU's state."""
    trials = []
    for size in _SIZES:
        if 5 * 4 * size * size > free:  # operands, results, and the random numbers for them
            continue
        first, second = (
            torch.randn(size, size, device="cuda", dtype=torch.float32).to(kind) for _ in range(2)
        )
        out = torch.empty(size, size, device="cuda", dtype=kind)
        # The library uses other kernels if an operand is transposed.
        for layout, left, right in (
            ("NN", first, second),
            ("NT", first, second.t()),
            ("TN", first.t(), second),
        ):

            def run(left: Any = left, right: Any = right, out: Any = out) -> None:
                torch.mm(left, right, out=out)

            rate = 2 * size**3 / _seconds(torch, run, _TRIAL_SECONDS) / 1e12
            trials.append((rate, size, layout, left, right, out, run))
        del first, second, out
    _, size, layout, left, right, out, run = max(trials, key=lambda trial: trial[0])
    run()
    before = out.clone()
    _seconds(torch, run, _WARM_UP_SECONDS)
    with _sampled(gpu) as samples:
        measured = _windows(torch, run, 2 * size**3 / 1e12, "TFLOP/s")
    measured["shape"] = f"{size} x {size} x {size} {layout}"
    # Compares a part of the product, computed in double precision, with that of the matrix units.
    rows, columns = slice(0, 64), slice(size - 256, size)
    exact = left[rows].double() @ right[:, columns].double()
    error = ((out[rows, columns].double() - exact).norm() / exact.norm()).item()
    # JSON has no NaN; a result that is not a number has no error either.
    product = {
        "error": error if math.isfinite(error) else None,
        "repeats": bool(torch.equal(before, out)),
    }
    return measured, product, summary(samples)


def _memory(torch: Any, free: int) -> dict[str, Any]:
    """Copy and triad (a = b + s c) over the GPU's memory in GB/s, bytes read plus written."""
    # Far larger than every cache; three of them must fit.
    size = min(4 * _GIB, free // 4) // 4096 * 4096
    a, b, c = (torch.empty(size // 4, device="cuda", dtype=torch.float32) for _ in range(3))
    b.normal_()
    c.normal_()
    return {
        "copy": _windows(torch, lambda: a.copy_(b), 2 * size / 1e9, "GB/s"),
        "triad": _windows(torch, lambda: torch.add(b, c, alpha=3.0, out=a), 3 * size / 1e9, "GB/s"),
    }


def _host_link(torch: Any) -> dict[str, Any]:
    """Pinned host memory to the GPU and back, one direction at a time, in GB/s."""
    host = torch.empty(_HOST_BYTES, dtype=torch.uint8, pin_memory=True).random_()
    there = torch.empty(_HOST_BYTES, dtype=torch.uint8, device="cuda")
    amount = _HOST_BYTES / 1e9
    return {
        "hostToDevice": _windows(
            torch, lambda: there.copy_(host, non_blocking=True), amount, "GB/s"
        ),
        "deviceToHost": _windows(
            torch, lambda: host.copy_(there, non_blocking=True), amount, "GB/s"
        ),
    }


def _windows(torch: Any, run: Work, amount: float, unit: str) -> dict[str, Any]:
    """Amount per second: the median of the windows, the best one, and their spread."""
    _seconds(torch, run, _TRIAL_SECONDS)
    return figure([amount / _seconds(torch, run, WINDOW_SECONDS) for _ in range(WINDOWS)], unit)


def figure(rates: Sequence[float], unit: str) -> dict[str, Any]:
    """Median, best and spread (widest difference, as a share of the median) of some windows."""
    median = statistics.median(rates)
    return {
        "value": median,
        "best": max(rates),
        "spread": (max(rates) - min(rates)) / median,
        "unit": unit,
    }


def _seconds(torch: Any, run: Work, budget: float) -> float:
    """Seconds per run, averaged over as many consecutive runs as fill `budget`."""
    once = _timed(torch, run, 1)
    return _timed(torch, run, max(1, int(budget / max(once, 1e-6))))


def _timed(torch: Any, run: Work, times: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / times


@contextmanager
def _sampled(gpu: Gpu) -> Iterator[list[dict[str, Any]]]:
    """A list to which the GPU's state is added many times a second while the block runs."""
    samples: list[dict[str, Any]] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            samples.append(gpu.state())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def summary(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Minimum, median and maximum of each number, and each throttling reason's share of samples."""
    found: dict[str, Any] = {"samples": len(samples)}
    for key in ("smMhz", "memoryMhz", "watts", "celsius"):
        known = [one[key] for one in samples if one[key] is not None]
        found[key] = (
            {"least": min(known), "median": statistics.median(known), "most": max(known)}
            if known
            else None
        )
    told = [one["throttling"] for one in samples if one["throttling"] is not None]
    words = sorted({word for words in told for word in words})
    found["throttling"] = (
        {word: sum(word in words for words in told) / len(told) for word in words} if told else None
    )
    return found


def main(matrix: str | None, gpu: Gpu) -> dict[str, Any]:
    """Calls `measure` and reports an error as `unmeasured` (not the GPU's fault) or `broken`."""
    began = time.monotonic()
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        return {"unmeasured": f"this image has no PyTorch: {error}"}
    if not torch.cuda.is_available():
        return {"unmeasured": "PyTorch finds no GPU: its build or the driver does not match"}
    gpu.listen()
    try:
        result = measure(matrix, gpu, torch)
    except torch.cuda.OutOfMemoryError as error:
        return {"unmeasured": f"the GPU's memory is used by other programs: {_line(error)}"}
    except RuntimeError as error:
        if _NO_KERNEL in str(error):
            build = f"PyTorch {torch.__version__} for CUDA {torch.version.cuda}"
            return {
                "unmeasured": f"this image's {build} does not support this GPU: use another image"
            }
        return {"broken": _line(error), "xids": gpu.xids()}
    return {**result, "xids": gpu.xids(), "seconds": round(time.monotonic() - began, 1)}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
