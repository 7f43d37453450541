// Package v3 has the fields of a document that the engine's code about OpenAPI reads.
package v3

import (
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/orderedmap"
	"go.yaml.in/yaml/v4"
)

type Document struct {
	Info       *Info
	Components *Components
	Paths      *Paths
}

type Info struct{ Version string }

type Components struct {
	Schemas *orderedmap.Map[string, *base.SchemaProxy]
}

type Paths struct {
	PathItems *orderedmap.Map[string, *PathItem]
}

type PathItem struct{ Get, Post, Put, Delete, Patch, Head *Operation }

type Operation struct {
	OperationId, Summary, Description string
	Tags                              []string
	Deprecated                        *bool
	Parameters                        []*Parameter
	RequestBody                       *RequestBody
	Responses                         *Responses
	Extensions                        *orderedmap.Map[string, *yaml.Node]
}

type Parameter struct {
	Name, In, Description string
	Required              *bool
	Schema                *base.SchemaProxy
}

type RequestBody struct {
	Content *orderedmap.Map[string, *MediaType]
}

type Responses struct {
	Codes   *orderedmap.Map[string, *Response]
	Default *Response
}

type Response struct {
	Description string
	Content     *orderedmap.Map[string, *MediaType]
}

type MediaType struct{ Schema *base.SchemaProxy }
