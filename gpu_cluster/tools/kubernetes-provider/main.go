// Pulumi's own Kubernetes provider, with its schema read from the file beside the program: the module
// does not have the generated copy that its own main package embeds.
package main

import (
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/cmdutil"
)

func main() {
	program, err := os.Executable()
	if err != nil {
		cmdutil.ExitError(err.Error())
	}
	schema, err := os.ReadFile(filepath.Join(filepath.Dir(program), "schema.json"))
	if err != nil {
		cmdutil.ExitError(err.Error())
	}
	// The mapping is for `pulumi convert --from terraform`.
	provider.Serve("kubernetes", version.Version, schema, []byte("{}"))
}
