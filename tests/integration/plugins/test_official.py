"""Which official plugin is found, and whether it will do."""

from pathlib import Path

import pytest

from gpu_cluster.rehearsal.plugins import official
from gpu_cluster.rehearsal.plugins.official import installed
from gpu_cluster.tools.scripts import script

VERSION = "4.34.2"
TELLS = script("""import sys
from concurrent import futures
import grpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
class Told(provider_pb2_grpc.ResourceProviderServicer):
    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version="VERSION")
server = grpc.server(futures.ThreadPoolExecutor(1))
provider_pb2_grpc.add_ResourceProviderServicer_to_server(Told(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
""")


@pytest.fixture(autouse=True)
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "sdk_version", lambda package: VERSION)


def plugin_file(folder: Path, text: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pulumi-resource-kubernetes"
    file.write_text(text)
    file.chmod(0o755)
    return file


def test_the_one_on_path_tells_its_version(tmp_path: Path) -> None:
    """It beats the engine's folder of plugins where it has the SDK's major version."""
    plugin_file(tmp_path / "home/plugins/resource-kubernetes-v4.99.0")
    on_path = plugin_file(tmp_path / "bin", TELLS.replace("VERSION", "v4.32.0"))
    environment = {"PATH": str(tmp_path / "bin"), "PULUMI_HOME": str(tmp_path / "home")}
    found = installed("kubernetes", environment)
    assert (found.program, found.version) == (on_path, "v4.32.0")


def test_another_major_version_is_passed_over_with_a_word(tmp_path: Path) -> None:
    """The cached one takes its place; without one, the reason names both versions."""
    plugin_file(tmp_path / "bin", TELLS.replace("VERSION", "3.1.0"))
    environment = {"PATH": str(tmp_path / "bin"), "PULUMI_HOME": str(tmp_path / "home")}
    none = installed("kubernetes", environment)
    assert none.program is None
    assert none.why.endswith("pulumi-resource-kubernetes is of version 3.1.0, the SDK of 4.34.2")
    cached = plugin_file(tmp_path / "home/plugins/resource-kubernetes-v4.30.0")
    assert installed("kubernetes", environment).program == cached


def test_what_is_no_plugin_will_not_do(tmp_path: Path) -> None:
    """A program of the name that answers nobody."""
    plugin_file(tmp_path, "#!/bin/sh\necho hello\n")
    found = installed("kubernetes", {"PATH": str(tmp_path), "PULUMI_HOME": str(tmp_path)})
    assert found.program is None
    assert "is of version unknown" in found.why


def test_the_newest_cached_one_is_taken(tmp_path: Path) -> None:
    """Of the SDK's major version; 100 is newer than 35."""
    environment = {"PATH": str(tmp_path), "PULUMI_HOME": str(tmp_path)}
    plugins = tmp_path / "plugins"
    plugin_file(plugins / "resource-kubernetes-v5.0.0")
    (plugins / "resource-kubernetes-v4.99.0").mkdir()  # an interrupted download
    assert installed("kubernetes", environment).program is None
    wanted = [plugin_file(plugins / f"resource-kubernetes-v4.{minor}.0") for minor in (35, 100)]
    assert installed("kubernetes", environment).program == wanted[1]


def test_none_is_installed(tmp_path: Path) -> None:
    found = installed("kubernetes", {"PATH": str(tmp_path), "PULUMI_HOME": str(tmp_path)})
    assert found.why == "no official plugin pulumi-resource-kubernetes is installed"
