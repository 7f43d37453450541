// Package kubernetes stands for Pulumi's Go SDK of Kubernetes, whose classes for every kind take two
// thirds of the time of building the provider. The provider uses it only for the components that
// declare further resources, such as Helm's charts.
package kubernetes

import "reflect"

// UntypedArgs are the inputs of a resource of any kind.
type UntypedArgs map[string]interface{}

// ElementType makes the arguments an input.
func (UntypedArgs) ElementType() reflect.Type {
	return reflect.TypeFor[map[string]interface{}]()
}
