"""A service: a Deployment with probes, its Service, and the scaling of its pods."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import ContainerArgsDict, PodSpecArgsDict, ProbeArgsDict
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

from ..cluster import GpuPool
from .auxiliary import ROOT, declare_claims, declare_files
from .awaiting import awaited
from .pod_parts import PodParts, contents_of, pod_parts
from .prerequisites import Prerequisites
from .service_args import MetricArgs, PrometheusArgs, ScalingArgs, ServiceArgs
from .workload import NO_SURGE, WAIT_SECONDS, pod_spec

_PORT = "http"
_STARTUP_PERIOD = 10
_DRAIN_SECONDS = 5
"""How long a pod still answers after it was told to end: until then, it may get requests."""
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def declare(services: Mapping[str, ServiceArgs], after: Prerequisites) -> None:
    """Declares each service under its name, and the output with their addresses."""
    for name, args in services.items():
        GpuService(name, args, after, opts=after.cluster.component_options)
    pulumi.export("services", {name: args.contract(name) for name, args in services.items()})


class GpuService(pulumi.ComponentResource):
    """The Deployment of a service, with its Service, policies and scaling."""

    def __init__(
        self,
        name: str,
        args: ServiceArgs,
        after: Prerequisites,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:Service", name, None, opts)
        cluster, labels, scaling = after.cluster, {"app": name}, args.scaling
        metadata: ObjectMetaArgsDict = {"name": name, "namespace": args.namespace, "labels": labels}
        contents = contents_of(args, ROOT)
        parts = pod_parts(name, args, contents, cluster.buckets)
        options = cluster.options(self)
        policy = kubernetes.networking.v1.NetworkPolicy(
            name,
            metadata=metadata,
            spec={
                "pod_selector": {"match_labels": labels},
                "policy_types": ["Ingress"],
                "ingress": [{"from_": _callers(args), "ports": [{"port": args.port}]}],
            },
            opts=options,
        )
        before = [
            policy,
            *(after.auxiliary if args.service_account or args.volumes else ()),
            *declare_files(name, args.namespace, contents, cluster=cluster, parent=self),
            *declare_claims(
                args.gpu_claims(name, cluster.pools[args.pool]), name, args.namespace,
                cluster=cluster, parent=self, plugins=after.plugins,
            ),
        ]  # fmt: skip
        replicas = 1 if args.replicas is None else args.replicas
        # Without scaling, the stack controls the number of pods again, and takes it from KEDA.
        force = {} if scaling else {"pulumi.com/patchForce": "true"}
        deployment = kubernetes.apps.v1.Deployment(
            name,
            metadata={
                **metadata,
                "annotations": {**awaited(args.wait, seconds=WAIT_SECONDS), **force},
            },
            spec={
                "replicas": scaling.min_replicas if scaling else replicas,
                "selector": {"match_labels": labels},
                "strategy": NO_SURGE,
                "template": {
                    "metadata": {"labels": labels, "annotations": {**parts.annotations} or None},
                    "spec": _pod(name, args, cluster.pools[args.pool], parts),
                },
            },
            opts=pulumi.ResourceOptions.merge(
                cluster.options(self, depends_on=before, holds_disk=bool(args.claims)),
                # From then on, the autoscaler controls the number of pods.
                pulumi.ResourceOptions(ignore_changes=["spec.replicas"] if scaling else []),
            ),
        )
        kubernetes.core.v1.Service(
            name,
            # A service with zero pods has no endpoints to wait for.
            metadata={**metadata, "annotations": awaited(False, seconds=WAIT_SECONDS)},
            spec={
                "type": "ClusterIP",
                "selector": labels,
                "ports": [{"name": _PORT, "port": args.port, "target_port": _PORT}],
            },
            opts=options,
        )
        kubernetes.policy.v1.PodDisruptionBudget(
            name,
            metadata=metadata,
            spec={
                # Not a minimum: with one pod, it would prevent its node from being drained. Pods
                # that share GPUs start on another node only after all have left this one.
                "max_unavailable": "100%" if args.shared_gpus else 1,
                "unhealthy_pod_eviction_policy": "AlwaysAllow",
                "selector": {"match_labels": labels},
            },
            opts=options,
        )
        scaled = cluster.options(self, depends_on=[deployment])
        if scaling and scaling.metric:
            kubernetes.autoscaling.v2.HorizontalPodAutoscaler(
                name,
                metadata=metadata,
                spec={
                    "scale_target_ref": {
                        "api_version": "apps/v1",
                        "kind": "Deployment",
                        "name": name,
                    },
                    "min_replicas": scaling.min_replicas,
                    "max_replicas": scaling.max_replicas,
                    "metrics": [_metric(scaling.metric)],
                    "behavior": {
                        "scale_down": {"stabilization_window_seconds": scaling.idle_seconds}
                    },
                },
                opts=scaled,
            )
        elif scaling and scaling.prometheus:
            kubernetes.apiextensions.CustomResource(
                name,
                api_version="keda.sh/v1alpha1",
                kind="ScaledObject",
                metadata=metadata,
                spec=_scaled_object(name, scaling, scaling.prometheus),
                opts=scaled,
            )
        self.register_outputs({})


def _callers(args: ServiceArgs) -> Any:
    """The pods of its own and of other namespaces. The kubelet's probes are always allowed."""
    others = [
        {"namespace_selector": {"match_labels": {_NAMESPACE_NAME: who}}} for who in args.callers
    ]
    return [{"pod_selector": {}}, *others]


def _pod(name: str, args: ServiceArgs, pool: GpuPool, parts: PodParts) -> PodSpecArgsDict:
    ready = _asked(args.readiness_path)
    container: ContainerArgsDict = {
        "name": name,
        "ports": [{"name": _PORT, "container_port": args.port}],
        "startup_probe": {
            **ready,
            "period_seconds": _STARTUP_PERIOD,
            "failure_threshold": -(-args.startup_seconds // _STARTUP_PERIOD),
        },
        "readiness_probe": {**ready, "period_seconds": 5, "failure_threshold": 3},
        # A server with a busy GPU may answer late; a restart would have to load the model again.
        "liveness_probe": {
            **_asked(args.liveness_path),
            "period_seconds": 10,
            "failure_threshold": 6,
        },
        "lifecycle": {"pre_stop": {"sleep": {"seconds": _DRAIN_SECONDS}}},
    }
    return {
        **pod_spec(args, pool, parts, container),
        # A Service called vllm would set VLLM_PORT to a URL, which vLLM would use as its own
        # setting.
        "enable_service_links": False,
    }


def _asked(path: str) -> ProbeArgsDict:
    return {"http_get": {"path": path, "port": _PORT}, "timeout_seconds": 5}


def _metric(args: MetricArgs) -> Any:
    selector = {"match_labels": dict(args.match_labels)} if args.match_labels else None
    value = {
        "metric": {"name": args.name, "selector": selector},
        "target": {"type": "AverageValue", "average_value": args.average_value},
    }
    return {"type": args.type, args.type.lower(): value}


def _scaled_object(name: str, scaling: ScalingArgs, args: PrometheusArgs) -> dict[str, Any]:
    """The ScaledObject's spec, as in keda.sh/docs/2.21/reference/scaledobject-spec and
    .../scalers/prometheus, read 2026-11-24."""
    trigger: dict[str, Any] = {
        "type": "prometheus",
        "metadata": {
            "serverAddress": args.server_address,
            "query": args.query,
            "threshold": f"{args.threshold:.15g}",
            "activationThreshold": f"{args.activation_threshold:.15g}",
        },
    }
    if args.authentication:
        trigger["authenticationRef"] = {"name": args.authentication}
    scale_down = {"stabilizationWindowSeconds": scaling.idle_seconds}
    return {
        "scaleTargetRef": {"name": name},
        "minReplicaCount": scaling.min_replicas,
        "maxReplicaCount": scaling.max_replicas,
        # Applies to scaling from one pod to none; otherwise, KEDA's HorizontalPodAutoscaler
        # decides.
        "cooldownPeriod": scaling.idle_seconds,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": scale_down}}},
        "triggers": [trigger],
    }
