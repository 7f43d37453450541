"""The GPU's state according to the driver's management library; None if unsupported.

The library is part of the driver, so the image needs no `nvidia-smi`. Constants: NVIDIA's nvml.h.
"""

import ctypes
import os
import re
from typing import Any

_LIBRARY = os.environ.get("GPU_CHECK_NVML", "libnvidia-ml.so.1")  # a path, where it is elsewhere
_SM, _MEMORY = 1, 2
_UNCORRECTED, _SINCE_BOOT, _EVER = 1, 0, 1
_XID = 8
_TOO_SMALL = 7
"""The error code returned together with a list's length if the buffer for the list is too small."""

THROTTLING = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bit -> why clocks are lower than requested, without idling and settings of the owner."""


class _Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Address(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "ids", "subsystem")),
        ("text", ctypes.c_char * 32),
    ]


class Driver:
    """The management library. Raises OSError if it is missing or finds no driver."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_LIBRARY)
        if code := self._library.nvmlInit_v2():
            raise OSError(f"{_LIBRARY} does not start, code {code}")

    def code(self, function: str, *arguments: Any) -> int | None:
        """Calls a function and returns its code; None if the library does not have it."""
        call = getattr(self._library, function, None)
        return None if call is None else int(call(*arguments))

    def succeeds(self, function: str, *arguments: Any) -> bool:
        """Calls a function; False if the library lacks it or the GPU does not support it."""
        return self.code(function, *arguments) == 0

    @property
    def version(self) -> str | None:
        """The driver's version: `580.159.04`."""
        text = ctypes.create_string_buffer(96)
        asked = self.succeeds("nvmlSystemGetDriverVersion", text, ctypes.c_uint(96))
        return text.value.decode() if asked else None

    def gpus(self) -> list["Gpu"]:
        """The GPUs that are visible to this container."""
        count = ctypes.c_uint()
        self.succeeds("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [Gpu(self, index) for index in range(count.value)]


class Gpu:
    """One GPU, identified by its index in the driver's list."""

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self._handle = ctypes.c_void_p()
        driver.succeeds(
            "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self._handle)
        )
        self._events: ctypes.c_void_p | None = None

    def _text(self, function: str) -> str | None:
        text = ctypes.create_string_buffer(96)
        asked = self._driver.succeeds(function, self._handle, text, ctypes.c_uint(96))
        return text.value.decode() if asked else None

    def _number(self, function: str, *which: int, kind: Any = ctypes.c_uint) -> int | None:
        number = kind()
        arguments = [ctypes.c_uint(choice) for choice in which]
        asked = self._driver.succeeds(function, self._handle, *arguments, ctypes.byref(number))
        return int(number.value) if asked else None

    @property
    def name(self) -> str:
        """The driver's name for it: `NVIDIA H100 80GB HBM3`."""
        return self._text("nvmlDeviceGetName") or "unknown"

    @property
    def uuid(self) -> str | None:
        """The ID that `CUDA_VISIBLE_DEVICES` accepts."""
        return self._text("nvmlDeviceGetUUID")

    @property
    def address(self) -> str | None:
        """Its address on the PCI bus: `00000000:0F:00.0`."""
        address = _Address()
        asked = self._driver.succeeds(
            "nvmlDeviceGetPciInfo_v3", self._handle, ctypes.byref(address)
        )
        return bytes(address.text).decode() if asked else None

    @property
    def partitioned(self) -> bool:
        """Whether MIG is on."""
        now, later = ctypes.c_uint(), ctypes.c_uint()
        asked = self._driver.succeeds(
            "nvmlDeviceGetMigMode", self._handle, ctypes.byref(now), ctypes.byref(later)
        )
        return asked and now.value == 1

    @property
    def programs(self) -> int | None:
        """The number of programs, of any user, that currently compute on it."""
        count = ctypes.c_uint(0)
        code = self._driver.code(
            "nvmlDeviceGetComputeRunningProcesses_v3", self._handle, ctypes.byref(count), None
        )
        return int(count.value) if code in (0, _TOO_SMALL) else None

    def state(self) -> dict[str, Any]:
        """Current clocks in MHz, power in W, temperature in C and throttling reasons."""
        power = self._number("nvmlDeviceGetPowerUsage")
        bits = self._number("nvmlDeviceGetCurrentClocksEventReasons", kind=ctypes.c_ulonglong)
        if bits is None:  # The function's name before driver 535.
            bits = self._number(
                "nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong
            )
        return {
            "smMhz": self._number("nvmlDeviceGetClockInfo", _SM),
            "memoryMhz": self._number("nvmlDeviceGetClockInfo", _MEMORY),
            "watts": None if power is None else power / 1000,
            "celsius": self._number("nvmlDeviceGetTemperature", 0),
            "throttling": None
            if bits is None
            else [word for bit, word in THROTTLING.items() if bits & bit],
        }

    def limits(self) -> dict[str, Any]:
        """The highest clocks in MHz, the power limit in W, the current and the best PCIe link."""
        power = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "smMhz": self._number("nvmlDeviceGetMaxClockInfo", _SM),
            "memoryMhz": self._number("nvmlDeviceGetMaxClockInfo", _MEMORY),
            "watts": None if power is None else power / 1000,
            "pcie": {
                "generation": self._number("nvmlDeviceGetCurrPcieLinkGeneration"),
                "lanes": self._number("nvmlDeviceGetCurrPcieLinkWidth"),
                "bestGeneration": self._number("nvmlDeviceGetMaxPcieLinkGeneration"),
                "bestLanes": self._number("nvmlDeviceGetMaxPcieLinkWidth"),
            },
        }

    def errors(self) -> dict[str, Any]:
        """ECC errors, repaired memory rows or pages, and XIDs in the kernel's log since boot."""
        on, later = ctypes.c_uint(), ctypes.c_uint()
        ecc = self._driver.succeeds(
            "nvmlDeviceGetEccMode", self._handle, ctypes.byref(on), ctypes.byref(later)
        )
        rows = [ctypes.c_uint() for _ in range(4)]
        mapped = self._driver.succeeds(
            "nvmlDeviceGetRemappedRows", self._handle, *(ctypes.byref(row) for row in rows)
        )
        corrected, uncorrected, pending, failed = (row.value if mapped else None for row in rows)
        pages = self._number("nvmlDeviceGetRetiredPagesPendingStatus")
        return {
            "ecc": bool(on.value) if ecc else None,
            "uncorrectedSinceBoot": self._uncorrected(_SINCE_BOOT),
            "uncorrectedEver": self._uncorrected(_EVER),
            "rowsRemappedCorrected": corrected,
            "rowsRemappedUncorrected": uncorrected,
            "rowsRemapPending": None if pending is None else bool(pending),
            "rowsRemapFailed": None if failed is None else bool(failed),
            "pagesPending": None if pages is None else bool(pages),
            "xidsInKernelLog": kernel_log_xids(_kernel_log(), self.address),
        }

    def _uncorrected(self, since: int) -> int | None:
        return self._number(
            "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, since, kind=ctypes.c_ulonglong
        )

    def listen(self) -> None:
        """Starts recording events, which `xids` returns."""
        events = ctypes.c_void_p()
        asked = self._driver.succeeds("nvmlEventSetCreate", ctypes.byref(events))
        kind = ctypes.c_ulonglong(_XID)
        if asked and self._driver.succeeds("nvmlDeviceRegisterEvents", self._handle, kind, events):
            self._events = events

    def xids(self) -> list[int] | None:
        """XID errors since `listen`; None if the driver does not report them."""
        if self._events is None:
            return None
        found, event = [], _Event()
        while self._driver.succeeds(
            "nvmlEventSetWait_v2", self._events, ctypes.byref(event), ctypes.c_uint(0)
        ):
            if event.kind == _XID:
                found.append(int(event.data))
        return found


def kernel_log_xids(log: str | None, address: str | None) -> list[int] | None:
    """The XIDs of the GPU at a PCI address (bus and device) in a kernel log.

    None if the log cannot be read.
    """
    if log is None or address is None:
        return None
    place = ":".join(address.lower().split(".")[0].split(":")[-2:])
    lines = re.findall(r"Xid \(PCI:([0-9a-fA-F:]+)[^)]*\): (\d+)", log)
    return [int(xid) for at, xid in lines if at.lower().endswith(place)]


def _kernel_log() -> str | None:
    # In most containers, the file does not exist or may not be read.
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    records = []
    try:
        while record := os.read(log, 8192):
            records.append(record)
    except BlockingIOError:
        pass  # The end of the log.
    except OSError:
        return None
    finally:
        os.close(log)
    return b"".join(records).decode(errors="replace")
