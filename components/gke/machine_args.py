"""The machine of a GPU node on GKE Standard, and its GPUs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge

from ..catalog import gke as catalog
from ..catalog.spelling import nearest
from ..schema.effect import Sent
from ..schema.limits import Example, Limit, pattern
from ..schema.on_change import OnChange
from ..schema.refusal import Range, Refusal, refuse, shown, unknown_value
from ..schema.rules import Checked, rule

_MACHINES = [
    *(row.name for row in catalog.MACHINE_TYPES.values() if not row.left_out),
    *(name for name in catalog.CPU_MACHINE_TYPES if name.startswith("n1-")),
]
_OFFERED = [row.name for row in catalog.ACCELERATORS.values() if not row.retired]


def _not_a_gpu_machine(name: str) -> str | None:
    machine = catalog.machine_type(name)
    base = name.removesuffix("-nolssd")
    if machine is None and base in catalog.MACHINE_TYPES:
        return f"{name} does not exist: {base} has no variant without local SSDs; use {base}"
    if machine is None or (machine.accelerator is None and machine.family != "n1"):
        near = None if machine else nearest(name[:100], _MACHINES, 0.8)
        hint = f"did you mean {near!r}? " if near else ""
        return (
            f"{shown(name)} is not a machine type that carries GPUs; {hint}allowed: N1 such as "
            "n1-standard-4 with an accelerator, or a type of G2, G4, A2, A3, A4 or A4X such as "
            "g2-standard-4"
        )
    return f"{name} {machine.left_out}" if machine.left_out else None


def _not_an_accelerator(name: str) -> Refusal | str | None:
    if name in _OFFERED:
        return None
    if gpu := catalog.ACCELERATORS.get(name):
        return (
            f"{name} is retired: Google Cloud has not started it since {gpu.retired_since}; use "
            f"{gpu.replacement} instead"
        )
    meant = catalog.spelling(name)
    if meant and (gpu := catalog.ACCELERATORS[meant]).retired:
        meant = gpu.replacement
    return unknown_value((), name, _OFFERED).but(allowed=_OFFERED, meant=meant or "")


_ACCELERATOR = Limit(_not_an_accelerator, {"enum": _OFFERED})
MACHINE = Limit(
    _not_a_gpu_machine,
    {
        "anyOf": [
            {"enum": _MACHINES},
            pattern(re.compile(r"(?:n1-)?custom-[0-9]+-[0-9]+")),
        ]
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeGpuMachineArgs(Checked):
    """A machine type with its GPUs, built in or attached."""

    machine_type: Annotated[
        str, MACHINE, Sent("NodePool nodeConfig.machineType"), Example("g2-standard-4")
    ]
    """The machine type of a node."""
    accelerator: Annotated[
        str | None,
        _ACCELERATOR,
        OnChange("GPU pool"),
        Sent("NodePool nodeConfig.guestAccelerators[].type"),
    ] = None
    """The GPU, as in `guestAccelerators.type`; derived if the machine type has it built in."""
    gpus_per_node: Annotated[
        int | None,
        Ge(1),
        OnChange("GPU pool"),
        Sent("NodePool nodeConfig.guestAccelerators[].count"),
    ] = None
    """The number of GPUs per node; derived if the machine type includes GPUs, otherwise 1."""

    @rule
    def _check_gpus(self) -> Iterator[Refusal]:
        machine, gpu_model = self.machine, self.gpu_model
        if machine.accelerator is not None:
            if gpu_model.name != machine.accelerator:
                yield refuse("accelerator")(
                    f"{gpu_model.name} contradicts {self.machine_type}, which carries "
                    f"{machine.accelerator}; drop one of the two"
                )
            if self.gpus_per_node not in (None, int(machine.gpus)):
                yield refuse("gpusPerNode", self.gpus_per_node)(
                    f"contradicts {self.machine_type}, which carries {int(machine.gpus)}",
                    remedy="drop the key",
                )
            return
        if gpu_model.machine_family != "n1":
            fitting = [
                bundle.name
                for bundle in catalog.MACHINE_TYPES.values()
                if bundle.accelerator == gpu_model.name
                and not (bundle.uncertain or bundle.left_out)
            ]
            raise refuse("accelerator")(
                f"{gpu_model.name} cannot be attached to {self.machine_type}",
                remedy="machine types that carry it: "
                f"{', '.join(fitting) or 'none that a pool can have'}",
            )
        if self.gpus not in gpu_model.counts:
            raise refuse("gpusPerNode", self.gpus)(
                f"is not possible with {gpu_model.name}", allowed=gpu_model.counts
            )
        limit = catalog.n1_attach_limit(gpu_model.name, self.gpus)
        if limit is not None and (machine.vcpu > limit[0] or machine.memory_gib > limit[1]):
            raise refuse("machineType")(
                f"{self.machine_type} is too large for {self.gpus} {gpu_model.name}",
                remedy=f"allowed: up to {limit[0]} vCPU and {limit[1]} GiB, or more GPUs",
            )

    def possible(self, key: str) -> Range | Sequence[Any] | None:
        built_in = self.machine.accelerator
        if key == "gpusPerNode":
            return [self.gpus] if built_in else self.gpu_model.counts
        if key == "accelerator":
            return [built_in] if built_in else _attachable()
        return None

    @property
    def machine(self) -> catalog.MachineType:
        """The catalog's row for the machine type."""
        machine = catalog.machine_type(self.machine_type)
        assert machine is not None
        return machine

    @property
    def gpu_model(self) -> catalog.Accelerator:
        """The catalog's row for the accelerator."""
        name = self.accelerator or self.machine.accelerator
        if name is None:
            raise refuse("accelerator")(
                f"is missing; {self.machine_type} has no GPU built in; give one of "
                f"{', '.join(_attachable())}"
            )
        return catalog.ACCELERATORS[name]

    @property
    def gpus(self) -> int:
        """Physical GPUs per node."""
        if self.machine.accelerator is not None:
            return int(self.machine.gpus)
        return 1 if self.gpus_per_node is None else self.gpus_per_node

    @property
    def node_gpus(self) -> tuple[catalog.Accelerator, int]:
        """The accelerator of a node and the number of GPUs."""
        return self.gpu_model, self.gpus


def _attachable() -> list[str]:
    return [
        gpu.name
        for gpu in catalog.ACCELERATORS.values()
        if gpu.machine_family == "n1" and not gpu.retired
    ]
