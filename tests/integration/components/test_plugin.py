"""The component package as the engine uses it: over gRPC, with a resource monitor of the test."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import (
    alias_pb2,
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

from gpu_cluster.components.stack import GpuStack
from gpu_cluster.rehearsal.engine.fork_server import launcher
from gpu_cluster.rehearsal.sandbox import ROOT
from gpu_cluster.stacks.engine.urn import Urn
from quality.docs import package_schema
from tests.components.recording import Registration, _registration, answers_of
from tests.components.test_stack import KUBECONFIG
from tests.program.environments import ANSWERS, recorded, values_of

SIGNATURE = rpc._special_sig_key
UNKNOWN = {SIGNATURE: rpc._special_output_value_sig}
"""An output of another resource, in a preview."""
STACK = "urn:pulumi:test::gpu-cluster::pulumi:pulumi:Stack::gpu-cluster-test"
EXISTING = {"platform": "existing", "name": "shared", "kubeconfig": KUBECONFIG}
POOLS = {"a100": {"nodeSelector": {"gpu": "a100"}, "gpusPerNode": 8}}


def output(value: object, *, secret: bool = False, of: str = "") -> dict[str, object]:
    """A known output, as the engine passes it on."""
    return {**UNKNOWN, "value": value, "secret": secret, "dependencies": [of] if of else []}


class Engine(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Registers what it is asked to, and answers with the inputs."""

    requests: list[resource_pb2.RegisterResourceRequest]
    warnings: list[str]

    def forget(self) -> None:
        self.requests, self.warnings = [], []

    def SupportsFeature(self, request: Any, context: object) -> object:
        return resource_pb2.SupportsFeatureResponse(hasSupport=True)

    def RegisterResource(
        self, request: resource_pb2.RegisterResourceRequest, context: object
    ) -> object:
        self.requests.append(request)
        above = Urn.parse(request.parent) if request.parent else Urn.parse(STACK)
        parents = () if str(above) == STACK else (*above.parents, above.type)
        own = Urn(
            stack="test",
            project="gpu-cluster",
            parents=parents,
            type=request.type,
            name=request.name,
        )
        known = {
            **json_format.MessageToDict(request.object),
            **answers_of(ANSWERS, request),
        }
        return resource_pb2.RegisterResourceResponse(
            urn=str(own), id=f"{request.name}-id", object=struct(known)
        )

    def RegisterResourceOutputs(self, request: Any, context: object) -> object:
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: Any, context: object) -> object:
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: object) -> object:
        # So the SDK looks up a provider that the program has given.
        assert request.tok == "pulumi:pulumi:getResource"
        result = {"urn": request.args["urn"], "id": "own-id", "state": {}}
        return provider_pb2.InvokeResponse(**{"return": struct(result)})

    def Log(self, request: Any, context: object) -> object:
        self.warnings.append(request.message)
        return empty_pb2.Empty()


def struct(value: Mapping[str, object]) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update(value)
    return message


class Package:
    """The running package, and the engine that it registers resources with."""

    def __init__(self, address: str, engine: Engine, programs: Iterator[str]) -> None:
        """`programs`: addresses of the engine, each of which stands for another program."""
        self.stub = provider_pb2_grpc.ResourceProviderStub(grpc.insecure_channel(address))
        self.engine = engine
        self.programs = programs

    def construct(
        self,
        inputs: Mapping[str, object],
        *,
        config: Mapping[str, str] | None = None,
        kind: str = GpuStack.TOKEN,
        **options: Any,
    ) -> provider_pb2.ConstructResponse:
        self.engine.forget()
        request = provider_pb2.ConstructRequest(
            project="gpu-cluster",
            stack="test",
            config=config or {},
            monitorEndpoint=options.pop("program", "") or next(self.programs),
            type=kind,
            name="gpus",
            parent=options.pop("parent", STACK),
            inputs=struct(inputs),
            **options,
        )
        return self.stub.Construct(request, timeout=120)

    def refused(self, inputs: Mapping[str, object], **options: Any) -> str:
        """What the engine shows."""
        with pytest.raises(grpc.RpcError) as error:
            self.construct(inputs, **options)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        return str(error.value.details())

    @property
    def registered(self) -> dict[str, Registration]:
        """Type and name -> what was registered."""
        return {each.key: each for each in map(_registration, self.engine.requests)}


@pytest.fixture(scope="module")
def package() -> Iterator[Package]:
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    engine = Engine()
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(engine, server)
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    ports = [server.add_insecure_port("127.0.0.1:0") for _ in range(40)]
    address, *programs = [f"127.0.0.1:{port}" for port in ports]
    server.start()
    command = [str(launcher()), "-u", "-m", "gpu_cluster", address]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Package(f"127.0.0.1:{port}", engine, iter(programs))
        process.terminate()
    server.stop(grace=None).wait()


def test_the_schema_is_up_to_date() -> None:
    """`make docs` writes it, from the classes of the settings."""
    assert package_schema.FILE.read_text() == package_schema.package_schema_text()


def test_the_package_answers_with_its_schema(package: Package) -> None:
    """From which Pulumi generates the SDKs of other languages."""
    answer = package.stub.GetSchema(provider_pb2.GetSchemaRequest(version=0))
    assert answer.schema == package_schema.FILE.read_text()
    info = package.stub.GetPluginInfo(empty_pb2.Empty())
    assert info.version == json.loads(answer.schema)["version"]


@pytest.mark.parametrize(
    "kubeconfig",
    [KUBECONFIG, output(KUBECONFIG, of=f"{STACK}-other"), output(KUBECONFIG, secret=True), UNKNOWN],
    ids=["plain", "output", "secret", "unknown"],
)
def test_a_kubeconfig_may_be_an_output(package: Package, kubeconfig: object) -> None:
    """The same resources, all below the component, whose own kubeconfig is a secret."""
    cluster = {**EXISTING, "kubeconfig": kubeconfig}
    workloads = {"hello": {"kind": "job", "pool": "a100", "image": "a.example/b:1"}}
    preview = kubeconfig is UNKNOWN
    inputs = {"cluster": cluster, "gpuPools": POOLS, "workloads": workloads}
    answer = package.construct(inputs, dryRun=preview)
    assert Urn.parse(answer.urn).label == "gpu-cluster:index:GpuStack gpus"
    found = package.registered
    assert found.pop("gpu-cluster:index:GpuStack::gpus").parent == STACK
    assert "kubernetes:batch/v1:Job::hello" in found
    assert all(GpuStack.TOKEN in one.parent for one in found.values())
    state = answer.state
    assert state["clusterName"] == "shared"
    assert state["gpuPools"]["a100"]["gpusPerNode"] == 8
    secret = state["kubeconfig"]
    assert secret[SIGNATURE] in (rpc._special_secret_sig, rpc._special_output_value_sig)
    assert preview or state["endpoint"] == "https://192.0.2.1"


def test_a_sample_is_declared_as_the_program_declares_it(package: Package) -> None:
    """From the same maps, with the providers' config of the program's own stack."""
    values = values_of("dev")
    ours = "gpu-cluster:"
    inputs = {key.removeprefix(ours): each for key, each in values.items() if key.startswith(ours)}
    config = {"gcp:project": values["gcp:project"]}
    package.construct(inputs, config=config, dryRun=True)
    component = f"{GpuStack.TOKEN}::gpus"
    declared = {resource.key: resource.inputs for resource in recorded(values).resources}
    found = {key: one.inputs for key, one in package.registered.items() if key != component}
    assert found == declared


REFUSED = {
    "nothing": ({}, "gpu-cluster:cluster.platform: is missing; allowed: gke, gke-autopilot, eks"),
    "an unknown cluster": ({"cluster": UNKNOWN}, "gpu-cluster:cluster: is an output, whose value"),
    "an unknown platform": ({"cluster": {**EXISTING, "platform": UNKNOWN}},
        "gpu-cluster:cluster.platform: is an output, whose value"),
    "an unknown pool": ({"cluster": EXISTING, "gpuPools": {"a": UNKNOWN}},
        "gpu-cluster:gpuPools.a: is an output, whose value"),
    "a secret number": (
        {"cluster": EXISTING, "gpuPools": {"a": {**POOLS["a100"], "gpusPerNode": output(8)}}},
        "gpu-cluster:gpuPools.a.gpusPerNode: is an output, whose value",
    ),
    "a part of a number": (
        {"cluster": EXISTING, "gpuPools": {"a": {**POOLS["a100"], "gpusPerNode": 1.5}}},
        "gpu-cluster:gpuPools.a.gpusPerNode: 1.5 is not an integer; write a whole number",
    ),
    "a list of pools": ({"cluster": EXISTING, "gpuPools": [POOLS]}, "gpu-cluster:gpuPools: [{"),
    "a misspelled key": ({"cluster": EXISTING, "worklods": {}},
        "gpu-cluster:worklods: there is no such key; did you mean 'workloads'?"),
    "a kubeconfig of nothing": ({"cluster": {**EXISTING, "kubeconfig": output("{}", secret=True)}},
        "gpu-cluster:cluster.kubeconfig: is not a kubeconfig: it has no contexts"),
    "a kubeconfig that YAML has parsed": (
        {"cluster": {**EXISTING, "kubeconfig": output({"contexts": []})}},
        "gpu-cluster:cluster.kubeconfig: is not a string; give its text",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_one_line(package: Package, what: str) -> None:
    """As in a Python program: the key's path and what to do, and no traceback."""
    inputs, says = REFUSED[what]
    message = package.refused(inputs)
    assert message.startswith(says)
    assert len(message.splitlines()) == 1
    # Only what an output holds is seen once it is known.
    assert package.engine.requests == [] or "kubeconfig" in what


def test_another_component_is_refused(package: Package) -> None:
    """An SDK of another version may have one."""
    message = package.refused({"cluster": EXISTING}, kind="gpu-cluster:index:Other")
    assert message.endswith("Other: is not known; allowed: gpu-cluster:index:GpuStack")


def test_two_stacks_of_a_program_need_two_prefixes(package: Package) -> None:
    """One may have none. Another program is not concerned, nor is its update after the preview."""
    inputs, program = {"cluster": EXISTING, "gpuPools": POOLS}, next(package.programs)
    package.construct(inputs, program=program)
    says = "gpu-cluster:prefix: '' is that of another GpuStack of this program; give each"
    assert package.refused(inputs, program=program).startswith(says)
    package.construct({**inputs, "prefix": "more"}, program=program)
    package.construct(inputs)


def test_a_provider_of_the_cloud_is_refused(package: Package) -> None:
    """Its region would be that of the cluster, and not that of the kubeconfig."""
    google = STACK.replace("pulumi:pulumi:Stack::gpu-cluster-test", "pulumi:providers:gcp::own")
    values = values_of("dev")
    inputs = {key: values[f"gpu-cluster:{key}"] for key in ("cluster", "gpuPools")}
    config = {"gcp:project": values["gcp:project"]}
    message = package.refused(inputs, config=config, providers={"gcp": f"{google}::own-id"})
    assert message.startswith("GpuStack gpus: has a provider of gcp in its options")
    assert package.engine.requests == []


def test_options_of_the_component_hold_below_it(package: Package) -> None:
    """Its parent, aliases and protection."""
    parent = STACK.replace("pulumi:pulumi:Stack::gpu-cluster-test", "own:index:Team::research")
    alias = alias_pb2.Alias(spec=alias_pb2.Alias.Spec(name="before"))
    values = values_of("dev")
    package.construct(
        {key: values[f"gpu-cluster:{key}"] for key in ("cluster", "gpuPools")},
        config={"gcp:project": values["gcp:project"]},
        parent=parent,
        aliases=[alias],
        protect=True,
        dependencies=[f"{parent}-other"],
        dryRun=True,
    )
    component, *_ = package.engine.requests
    assert (component.parent, component.protect) == (parent, True)
    assert [each.spec.name for each in component.aliases] == ["before"]
    assert list(component.dependencies) == [f"{parent}-other"]


def test_a_warning_reaches_the_user(package: Package) -> None:
    """The engine shows it as one of the program's."""
    values = values_of("dev")
    inputs = {key: values[f"gpu-cluster:{key}"] for key in ("cluster", "gpuPools")}
    package.construct(inputs, config={"gcp:project": values["gcp:project"]}, dryRun=True)
    assert any("gpuPools." in line or "cluster." in line for line in package.engine.warnings)
