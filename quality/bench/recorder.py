"""Copied next to a program: records the resources that it registers.

The program's first line calls `start`; the file is written when the program ends.
"""

import atexit
import pickle
from pathlib import Path
from typing import Any

import pulumi


def start(file: str) -> None:
    """Records pairs of a `RegisterResourceRequest` and the URN in the engine's response."""
    monitor: Any = pulumi.runtime.settings.get_monitor()
    register = monitor.RegisterResource
    kept: list[tuple[bytes, str]] = []

    def registered(request: Any, *rest: Any, **options: Any) -> Any:
        place = len(kept)
        kept.append((request.SerializeToString(), ""))  # in the order of the requests
        answer = register(request, *rest, **options)
        kept[place] = (kept[place][0], answer.urn)
        return answer

    monitor.RegisterResource = registered
    atexit.register(lambda: Path(file).write_bytes(pickle.dumps(kept)))
