// Package libopenapi stands for the parser of OpenAPI documents that `pulumi api` needs and nothing
// else. It takes a quarter of the time of building the engine, and no rehearsal asks Pulumi Cloud's
// API. It has the names that the engine uses of it; every document is refused.
package libopenapi

import (
	"errors"

	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// A Document is never there.
type Document interface {
	BuildV3Model() (*DocumentModel[v3.Document], error)
}

// A DocumentModel is never there either.
type DocumentModel[T any] struct {
	Model T
}

// NewDocument refuses every document.
func NewDocument([]byte) (Document, error) {
	return nil, errors.New(
		"this engine was built without `pulumi api`: install the Pulumi CLI, https://www.pulumi.com/docs/install")
}
