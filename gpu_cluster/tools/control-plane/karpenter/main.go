// Karpenter with its KWOK provider, under its own name, in a hurry to remove empty nodes.
package main

import (
	"context"
	"os"
	"time"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

const (
	// Upstream, Karpenter looks every 10 s for nodes that it can remove.
	look = time.Second
	// Upstream, it looks again after 15 s whether such a node is still empty, and removes it then.
	lookAgain = time.Second
)

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "no instance types")
		os.Exit(1)
	}
	hurried := impatient{op.Clock}
	bare := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	provider := overlay.Decorate(bare, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(hurried, op.GetClient(), provider)
	all := controllers.NewControllers(
		ctx, op.Manager, hurried, op.GetClient(), op.EventRecorder,
		provider, bare, cluster, op.InstanceTypeStore,
	)
	op.WithControllers(ctx, eager(all)...).Start(ctx)
}

// impatient waits no longer than `lookAgain`. That wait is the only one that Karpenter takes from
// its clock's After.
type impatient struct{ clock.Clock }

func (i impatient) After(d time.Duration) <-chan time.Time {
	return i.Clock.After(min(d, lookAgain))
}

// eager has the disruption controller run every `look`.
func eager(all []controller.Controller) []controller.Controller {
	for i, each := range all {
		if own, ok := each.(*disruption.Controller); ok {
			all[i] = polling{own}
		}
	}
	return all
}

type polling struct{ *disruption.Controller }

func (p polling) Register(_ context.Context, m manager.Manager) error {
	return controllerruntime.NewControllerManagedBy(m).Named(p.Name()).
		WatchesRawSource(singleton.Source()).Complete(singleton.AsReconciler(p))
}

func (p polling) Reconcile(ctx context.Context) (reconciler.Result, error) {
	result, err := p.Controller.Reconcile(ctx)
	result.RequeueAfter = min(result.RequeueAfter, look)
	return result, err
}
