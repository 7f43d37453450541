"""`gpu_cluster/clouds/generated` is written from sources, the better one counts."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.scripts import script
from quality.clouds import definitions, generate, go_schema, plugin_schema

SCHEMA = {
    "name": "aws",
    "version": "7.51.1",
    "resources": {
        "aws:a/b:B": {
            "inputProperties": {
                "name": {"type": "string", "willReplaceOnChanges": True},
                "size": {"type": "integer"},
                "disks": {"type": "array", "items": {"$ref": "#/types/aws:a/Disk:Disk"}},
            }
        }
    },
    "types": {
        "aws:a/Disk:Disk": {
            "properties": {
                "type": {"type": "string", "willReplaceOnChanges": True},
                "inner": {"$ref": "#/types/aws:a/Disk:Disk"},
            }
        }
    },
}


def test_a_schema_names_what_replaces_at_any_depth() -> None:
    """A type that holds itself is read once."""
    assert plugin_schema.row(SCHEMA, "aws:a/b:B") == {"immutable": ["name", "disks[].type"]}
    assert plugin_schema.source(SCHEMA) == "the official plugin aws 7.51.1's schema"


def test_a_plugin_is_asked_for_its_schema(tmp_path: Path) -> None:
    """A process that answers GetSchema on the port that it prints."""
    program = tmp_path / "pulumi-resource-aws"
    program.write_text(
        script(
            dedent(f"""\
        from concurrent.futures import ThreadPoolExecutor
        import grpc
        from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

        class Plugin(provider_pb2_grpc.ResourceProviderServicer):
            def GetSchema(self, request, context):
                return provider_pb2.GetSchemaResponse(schema={json.dumps(SCHEMA)!r})

        server = grpc.server(ThreadPoolExecutor())
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(Plugin(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        print(port, flush=True)
        server.wait_for_termination()
        """)
        )
    )
    program.chmod(0o755)
    assert plugin_schema.ask_schema(program) == SCHEMA


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file with what was recorded, and what the models have."""
    types = {
        "aws:a/b:B": {"recorded": {"immutable": ["a"], "defaults": {"x": 1}}},
        "aws:a/c:C": {"models": {"immutable": ["c"], "enums": {"y": ["Z"]}}},
    }
    sources = {"recorded": {"source": "by hand", "read": "2026-01-01"}, "models": {"source": "1"}}
    (tmp_path / "aws.yaml").write_text(yaml.dump({"sources": sources, "types": types}))
    return tmp_path


def read(folder: Path) -> dict[str, dict[str, object]]:
    """Its types and sources."""
    found: dict[str, dict[str, object]] = yaml.safe_load((folder / "aws.yaml").read_text())
    return found


def test_a_better_source_takes_the_place_of_a_lesser_one(folder: Path) -> None:
    """Of the kinds of facts that it has; the others stay, and other types too."""
    rows = {"aws:a/b:B": {"immutable": ["b"]}, "aws:a/d:D": {"immutable": ["d"]}}
    assert generate.update_facts("aws", "schema", "2", rows, folder) == [
        "aws:a/b:B immutable", "aws:a/d:D immutable"
    ]  # fmt: skip
    assert read(folder)["types"] == {
        "aws:a/b:B": {"recorded": {"defaults": {"x": 1}}, "schema": {"immutable": ["b"]}},
        "aws:a/c:C": {"models": {"immutable": ["c"], "enums": {"y": ["Z"]}}},
        "aws:a/d:D": {"schema": {"immutable": ["d"]}},
    }
    assert read(folder)["sources"].keys() == {"recorded", "models", "schema"}


def test_a_lesser_source_leaves_what_a_better_one_has(folder: Path) -> None:
    """The models keep what the schema does not have."""
    generate.update_facts("aws", "schema", "2", {"aws:a/c:C": {"immutable": ["s"]}}, folder)
    rows = {"aws:a/c:C": {"immutable": ["m"], "enums": {"y": ["Z", "A"]}}}
    assert generate.update_facts("aws", "models", "3", rows, folder) == ["aws:a/c:C enums"]
    assert read(folder)["types"]["aws:a/c:C"] == {
        "models": {"enums": {"y": ["Z", "A"]}},
        "schema": {"immutable": ["s"]},
    }


def test_what_has_not_changed_is_not_written_again(folder: Path) -> None:
    """The day stays that of the last change, so that a second run makes no difference."""
    before = (folder / "aws.yaml").read_text()
    rows = {"aws:a/c:C": {"immutable": ["c"], "enums": {"y": ["Z"]}}}
    assert generate.update_facts("aws", "models", "1", rows, folder) == []
    assert (folder / "aws.yaml").read_text() == before


def test_the_files_are_those_that_a_run_writes(tmp_path: Path) -> None:
    """Nobody has edited them: written again, they are the same, byte for byte."""
    for file in generate.FOLDER.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
        source, entry = next(iter(yaml.safe_load(file.read_text())["sources"].items()))
        generate.update_facts(file.stem, source, entry["source"] + " again", {}, tmp_path)
        types = [
            (at / file.name).read_text().partition("\ntypes:")[2]
            for at in (tmp_path, generate.FOLDER)
        ]
        assert types[0] == types[1]


NETWORK = """
name: Network
immutable: true
virtual_fields:
  - {name: delete_default_routes_on_create, type: Boolean, default_value: false}
properties:
  - {name: name, type: String, required: true, immutable: true, validation: {regex: '[a-z]+'}}
  - {name: mtu, type: Integer, default_from_api: true, update_url: 'networks/{{name}}',
     validation: {function: 'validation.IntBetween(1300, 8896)'}}
  - name: routingConfig
    type: NestedObject
    update_url: 'networks/{{name}}'
    flatten_object: true
    properties:
      - {name: routingMode, type: Enum, enum_values: [REGIONAL, GLOBAL], conflicts: [mtu]}
      - {name: bgpInterRegionCost, type: Enum, required: true, enum_values: [DEFAULT]}
  - name: params
    type: NestedObject
    properties: [{name: resource_manager_tags, type: KeyValuePairs}]
  - {name: gateway_ipv4, type: String, output: true}
  - {name: gone, type: String, exclude: true}
"""
NAT = """
name: RouterNat
properties:
  - {name: natIps, type: Array, item_type: {type: ResourceRef}, is_set: true, min_size: 1}
  - {name: drainNatIps, type: Array, item_type: {type: ResourceRef}, max_size: 4}
  - {name: initialNatIps, type: Array, item_type: {type: ResourceRef}, immutable: true,
     conflicts: [natIps, drainNatIps]}
  - {name: endpointTypes, type: Array, item_type: {type: Enum, enum_values: [VM]}}
  - name: rules
    type: Array
    item_type:
      type: NestedObject
      properties:
        - {name: ruleNumber, type: Integer, immutable: true}
        - {name: match, type: String, output: true}
"""


def defined(folder: Path, name: str, text: str) -> dict[str, object] | None:
    """What a definition says of a type of Compute Engine."""
    file = folder / "mmv1" / "products" / "compute" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return definitions.row(folder, f"gcp:compute/{name[0].lower()}{name[1:]}:{name}")


def test_what_is_in_an_immutable_resource_replaces_it_unless_it_has_an_update(
    tmp_path: Path,
) -> None:
    """Fields of the provider's own do not, and a block that replaces as a whole is one entry."""
    assert defined(tmp_path, "Network", NETWORK) == {
        "immutable": ["name", "params.*"],
        "kept_when_removed": ["mtu"],
        "defaults": {"deleteDefaultRoutesOnCreate": False},
        "enums": {"routingMode": ["REGIONAL", "GLOBAL", ""], "bgpInterRegionCost": ["DEFAULT"]},
        "bounds": {"mtu": {"min": 1300, "max": 8896}},
        "patterns": {"name": "[a-z]+"},
        "conflicts": [["mtu", "routingMode"]],
    }


def test_entries_of_lists_are_named_as_such(tmp_path: Path) -> None:
    """A list's size is of the list itself, and so is that its order is no difference."""
    assert defined(tmp_path, "RouterNat", NAT) == {
        "immutable": ["initialNatIps[]", "rules[].ruleNumber"],
        "not_inputs": ["rules[].match"],
        "sets": ["natIps"],
        "enums": {"endpointTypes[]": ["VM"]},
        "bounds": {"natIps": {"min_length": 1}, "drainNatIps": {"max_length": 4}},
        "conflicts": [["drainNatIps[]", "initialNatIps[]"], ["initialNatIps[]", "natIps[]"]],
    }


def test_a_type_that_is_written_in_go_has_no_definition(tmp_path: Path) -> None:
    """Neither one without a file nor one that is left out of the provider's generation."""
    assert defined(tmp_path, "Network", NETWORK + "exclude_resource: true\n") is None
    assert definitions.row(tmp_path, "gcp:projects/service:Service") is None


GO = """
var schemaPool = map[string]*schema.Schema{
	"autoscaling": {
		Type: schema.TypeList, MaxItems: 1, Optional: true,
		Elem: &schema.Resource{Schema: map[string]*schema.Schema{
			// the same for all zones
			"location_policy": {Type: schema.TypeString, Optional: true, Computed: true,
				ValidateFunc: validation.StringInSlice([]string{"BALANCED", "ANY"}, false)},
			"min_node_count": {Type: schema.TypeInt, ValidateFunc: validation.IntAtLeast(0)},
		}},
	},
	"node_locations": {Type: schema.TypeSet, Optional: true,
		Elem: &schema.Schema{Type: schema.TypeString}},
}
var (
	keys = []string{"name", "name_prefix"}
)
func version() *schema.Schema {
	return &schema.Schema{Type: schema.TypeString, Computed: true}
}
func ResourcePool() *schema.Resource {
	return &schema.Resource{
		Create: create,
		Timeouts: &schema.ResourceTimeout{Create: schema.DefaultTimeout(2 * time.Hour)},
		Schema: tpgresource.MergeSchemas(
			schemaPool,
			map[string]*schema.Schema{
				"name": {Type: schema.TypeString, Optional: true, ForceNew: true,
					ExactlyOneOf: keys,
					StateFunc: func(v interface{}) string { return fmt.Sprintf("{%s}", v) }},
				"spot": {Type: schema.TypeBool, Optional: true, Default: false},
				"version": version(),
{{- if ne $.TargetVersionName "ga" }}
				"beta": {Type: schema.TypeFloat, Required: true,
					ValidateFunc: validation.FloatBetween(0.0, 1.0)},
{{- else }}
				"stable": {Type: schema.TypeBool},
{{- end }}
				"labels": tpgresource.Labels("all"),
			}),
	}
}
"""


def test_a_schema_in_go_is_read_as_a_definition(tmp_path: Path) -> None:
    """Names and functions stand for what they are; of one elsewhere only the name is known."""
    file = tmp_path / "pool.go.tmpl"
    file.write_text(GO)
    fields = {each["name"]: each for each in go_schema.Source([file]).fields("ResourcePool")}
    told = {
        name: {word: value for word, value in field.items() if value and word != "name"}
        for name, field in fields.items()
    }
    assert told["autoscaling"].pop("properties") == [
        {**_NOTHING, "name": "location_policy", "type": "Enum", "enum_values": ["BALANCED", "ANY"],
         "required": True, "default_from_api": True},
        {**_NOTHING, "name": "min_node_count",
         "validation": {"function": "validation.IntAtLeast(0)"}},
    ]  # fmt: skip
    assert told == {
        "autoscaling": {},
        "node_locations": {"is_set": True},
        "name": {"immutable": True, "exactly_one_of": ["name", "name_prefix"]},
        "spot": {},
        "version": {"output": True},
        "beta": {"required": True,
                 "validation": {"function": "validation.FloatBetween(0, 1)"}},
        "labels": {},
    }  # fmt: skip
    assert fields["spot"]["default_value"] is False


_NOTHING = {"required": False, "output": False, "default_from_api": False,
            "immutable": False, "is_set": False}  # fmt: skip


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    """The source of the rows would have no version."""
    with pytest.raises(CheckError, match="is not a checkout of magic-modules"):
        generate.of_definitions(tmp_path)
