"""One measurement in its own process; prints the result as JSON on the last line.

`modules CONFIG` lists what the program loads and registers, `import FILE` imports those modules.
"""

import asyncio
import importlib
import json
import runpy
import sys
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ROOTS = ("components", "pulumi")
"""The program's package, and the SDKs."""


def run_program(config: dict[str, str]) -> list[str]:
    """Runs `__main__.py` with an engine that accepts everything; returns the registered types.

    As in a first preview, none of the cloud's outputs is known.
    """
    import pulumi
    from pulumi.runtime import mocks, stack

    registered: list[str] = []

    class Answers(pulumi.runtime.Mocks):
        def new_resource(self, args: Any) -> tuple[str | None, dict[Any, Any]]:
            registered.append(args.typ)
            return f"{args.name}-id", args.inputs

        def call(self, args: Any) -> Any:
            raise AssertionError(f"the program called {args.token}")

    async def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    mocks.set_mocks(Answers(), "gpu-cluster", "bench", True)
    pulumi.runtime.set_all_config(config)
    loop.run_until_complete(stack.run_pulumi_func(program))
    loop.close()
    return registered


def loaded() -> list[str]:
    """The modules that are really loaded, in the order of their import: the SDKs have lazy ones."""
    return [
        name
        for name, module in list(sys.modules.items())
        if name.startswith(ROOTS) and type(module) is types.ModuleType
    ]


def peak() -> float:
    """The process's peak memory in MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main(mode: str, file: str) -> dict[str, Any]:
    given = json.loads(Path(file).read_text())
    began = time.process_time()
    match mode:
        case "modules":
            types_ = run_program(given)
            return {"modules": loaded(), "types": types_}
        case "import":
            for name in given:
                # An SDK's lazy module loads when one of its attributes is read.
                getattr(importlib.import_module(name), "any_name", None)
    return {"seconds": time.process_time() - began, "memory": peak()}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
