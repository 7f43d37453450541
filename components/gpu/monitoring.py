"""GPU monitoring inside the cluster: exporter, dashboard and alert rules.

On Google Cloud, dashboard and alerts are resources of Cloud Monitoring instead.
"""

import json

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster import Cluster
from . import grafana
from .dcgm_exporter import NAMESPACE, DcgmExporter
from .monitoring_args import MonitoringArgs

_DASHBOARD = "gpu-dashboard"
_RULES = "gpu-alerts"


class GpuMonitoring(pulumi.ComponentResource):
    """The exporter, and, for Prometheus and Grafana, the dashboard and the alerts."""

    def __init__(
        self,
        name: str,
        args: MonitoringArgs,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:Monitoring", name, None, opts)
        exporter = DcgmExporter(
            name, args, cluster=cluster, opts=pulumi.ResourceOptions(parent=self)
        )
        if not cluster.managed_prometheus:
            options = cluster.options(
                self, delete_before_replace=True, depends_on=[exporter.namespace]
            )
            self._show(cluster.name, options)
            self._warn(args, options)
        self.register_outputs({})

    def _show(self, cluster: str, options: pulumi.ResourceOptions) -> None:
        kubernetes.core.v1.ConfigMap(
            _DASHBOARD,
            metadata={
                "name": _DASHBOARD,
                "namespace": NAMESPACE,
                # The Grafana chart's sidecar loads every ConfigMap with this label.
                "labels": {"grafana_dashboard": "1"},
            },
            data={"gpus.json": _json(grafana.dashboard(f"GPUs of {cluster}"))},
            opts=options,
        )

    def _warn(self, args: MonitoringArgs, options: pulumi.ResourceOptions) -> None:
        rules = grafana.rules()
        if args.prometheus_operator:
            kubernetes.apiextensions.CustomResource(
                _RULES,
                api_version="monitoring.coreos.com/v1",
                kind="PrometheusRule",
                metadata={
                    "name": _RULES,
                    "namespace": NAMESPACE,
                    "labels": dict(args.prometheus_labels),
                },
                spec=rules,
                opts=options,
            )
        else:
            kubernetes.core.v1.ConfigMap(
                _RULES,
                metadata={"name": _RULES, "namespace": NAMESPACE},
                # JSON is valid YAML: the file can be mounted into a folder of `rule_files`.
                data={"gpu-alerts.yaml": _json(rules)},
                opts=options,
            )


def _json(document: object) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
