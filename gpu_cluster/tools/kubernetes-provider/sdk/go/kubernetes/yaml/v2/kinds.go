// Package v2 registers the resources of a manifest.
package v2

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// RegisterResource registers a resource without the class of its kind, which matters only to a
// program in Go.
func RegisterResource(ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input,
	opts ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	var resource pulumi.CustomResourceState
	token := fmt.Sprintf("kubernetes:%s:%s", apiVersion, kind)
	return &resource, ctx.RegisterResource(token, name, props, &resource, opts...)
}
