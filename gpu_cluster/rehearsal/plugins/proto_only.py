"""The engine's messages, without the SDK whose packages contain them.

They are all that the language host needs of the SDK, whose import takes longer than the rest of the
host; the engine starts a host twice for every command.
"""

import sys
from importlib.util import find_spec
from types import ModuleType


def install() -> None:
    """Makes `pulumi` and `pulumi.runtime` packages whose code is not run.

    For a process that needs only `pulumi.runtime.proto`.
    """
    spec = find_spec("pulumi")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("pulumi is not installed")
    (folder,) = spec.submodule_search_locations
    for name, path in (("pulumi", folder), ("pulumi.runtime", f"{folder}/runtime")):
        sys.modules[name] = module = ModuleType(name)
        module.__path__ = [path]
