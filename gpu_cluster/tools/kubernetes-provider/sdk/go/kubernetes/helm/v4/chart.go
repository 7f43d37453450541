// Package v4 has the nested inputs of a chart. Reading them needs types that are not here, so a chart
// that sets one is refused.
package v4

import "github.com/pulumi/pulumi/sdk/v3/go/pulumi"

// RepositoryOptsInput accepts no value.
type RepositoryOptsInput interface{ pulumi.Input }

// RepositoryOpts are where a chart is found.
type RepositoryOpts struct {
	CaFile, CertFile, KeyFile pulumi.AssetOrArchive
	Password, Repo, Username  *string
}

// PostRendererInput accepts no value.
type PostRendererInput interface{ pulumi.Input }

// PostRenderer is a program that changes what a chart renders.
type PostRenderer struct {
	Command string
	Args    []string
}
