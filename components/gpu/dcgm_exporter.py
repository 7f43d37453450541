"""NVIDIA's DCGM exporter on every GPU node, and the objects that make a Prometheus scrape it."""

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog import charts_and_alerts, metrics
from ..cluster import Cluster
from .dcgm_pod import LABELS, NAME, PORT, groups, spec
from .monitoring_args import MonitoringArgs

NAMESPACE = "gpu-monitoring-system"


class DcgmExporter(pulumi.ComponentResource):
    """One DaemonSet for all pools, or one for each kind of nodes."""

    namespace: kubernetes.core.v1.Namespace
    daemon_sets: list[kubernetes.apps.v1.DaemonSet]

    def __init__(
        self,
        name: str,
        args: MonitoringArgs,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:DcgmExporter", name, None, opts)
        self.namespace = kubernetes.core.v1.Namespace(
            NAMESPACE,
            metadata={
                "name": NAMESPACE,
                # It needs host paths and more permissions than a restricted namespace allows, in
                # order to read the hardware's counters.
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            },
            opts=cluster.options(self),
        )
        file = metrics.counters(charts_and_alerts.used_metrics())
        counters = kubernetes.core.v1.ConfigMap(
            NAME,
            metadata={"name": NAME, "namespace": NAMESPACE},
            data={"counters.csv": file},
            opts=cluster.options(self, delete_before_replace=True, depends_on=[self.namespace]),
        )
        self.daemon_sets = [
            kubernetes.apps.v1.DaemonSet(
                group.name,
                metadata={
                    "name": group.name,
                    "namespace": NAMESPACE,
                    "labels": LABELS,
                    # It is ready at once on a pool without nodes; new nodes first need driver and
                    # image.
                    "annotations": {"pulumi.com/timeoutSeconds": "1800"},
                },
                spec=spec(group, args, file),
                # Two exporters on a node report every GPU twice.
                opts=cluster.options(self, delete_before_replace=True, depends_on=[counters]),
            )
            for group in groups(cluster)
        ]
        if cluster.managed_prometheus:
            self._for_google(args, cluster)
        else:
            self._for_prometheus(args, cluster)
        self.register_outputs({})

    def _for_google(self, args: MonitoringArgs, cluster: Cluster) -> None:
        kubernetes.apiextensions.CustomResource(
            NAME,
            api_version="monitoring.googleapis.com/v1",
            # Not PodMonitoring, which sets the namespace of every series to the exporter's.
            kind="ClusterPodMonitoring",
            metadata={"name": NAME},
            spec={
                "selector": {"matchLabels": LABELS},
                "endpoints": [{"port": "metrics", "interval": f"{args.interval_seconds}s"}],
                # None of the exporter's own: namespace, pod and container are those that use the
                # GPU, as in GKE's managed DCGM.
                "targetLabels": {"metadata": []},
            },
            opts=cluster.options(self, depends_on=[*self.daemon_sets, *cluster.system_nodes]),
        )

    def _for_prometheus(self, args: MonitoringArgs, cluster: Cluster) -> None:
        service = kubernetes.core.v1.Service(
            NAME,
            metadata={
                "name": NAME,
                "namespace": NAMESPACE,
                "labels": LABELS,
                # While all pools have zero nodes, there is no pod to wait for.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={
                "cluster_ip": "None",
                "selector": LABELS,
                "ports": [{"name": "metrics", "port": PORT, "target_port": "metrics"}],
            },
            opts=cluster.options(self, delete_before_replace=True, depends_on=[self.namespace]),
        )
        if args.prometheus_operator:
            kubernetes.apiextensions.CustomResource(
                NAME,
                api_version="monitoring.coreos.com/v1",
                kind="ServiceMonitor",
                metadata={
                    "name": NAME,
                    "namespace": NAMESPACE,
                    "labels": dict(args.prometheus_labels),
                },
                spec={
                    "selector": {"matchLabels": LABELS},
                    "endpoints": [
                        {
                            "port": "metrics",
                            "interval": f"{args.interval_seconds}s",
                            # Namespace, pod and container are those that use the GPU.
                            "honorLabels": True,
                        }
                    ],
                },
                opts=cluster.options(self, depends_on=[service]),
            )
