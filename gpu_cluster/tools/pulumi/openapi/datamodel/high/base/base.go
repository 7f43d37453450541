// Package base has the fields of a schema that the engine's code about OpenAPI reads.
package base

import (
	"github.com/pb33f/libopenapi/orderedmap"
	"go.yaml.in/yaml/v4"
)

type Schema struct {
	Type, Required               []string
	Description, Format, Pattern string
	AllOf, OneOf, AnyOf          []*SchemaProxy
	Properties                   *orderedmap.Map[string, *SchemaProxy]
	Extensions                   *orderedmap.Map[string, *yaml.Node]
	Items, AdditionalProperties  *Either
	Discriminator                *Discriminator
	Nullable, ReadOnly           *bool
	Minimum, Maximum, MultipleOf *float64
	MinLength, MaxLength         *int64
	Default                      *yaml.Node
	Enum                         []*yaml.Node
}

func (*Schema) GoLow() *Low                        { return nil }
func (*Schema) MarshalJSONInline() ([]byte, error) { return nil, nil }

type Low struct{}

func (*Low) Hash() uint64 { return 0 }

type SchemaProxy struct{}

func (*SchemaProxy) Schema() *Schema { return nil }

type Either struct{ A *SchemaProxy }

func (*Either) IsA() bool { return false }

type Discriminator struct {
	PropertyName string
	Mapping      *orderedmap.Map[string, string]
}
