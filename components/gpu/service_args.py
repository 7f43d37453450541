"""The settings of a service, and whether its pool can run it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Interval, MinLen

from ..cluster import GpuPool
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, QUANTITY, SUBDOMAIN, UNIQUE, Example, Labels, Limit, matching
from ..schema.refusal import Range, refuse, shown
from ..schema.rules import Checked, Order, never, rule
from .workload_args import GpuPodArgs

_PATH = matching("a path such as /health", re.compile(r"/\S*"))
_URL = matching("a URL such as http://prometheus.monitoring:9090", re.compile(r"https?://[^\s@]+"))
_METRIC = matching("a metric's name such as vllm_num_requests_waiting", re.compile(r"[^/%\s]+"))
_ABOVE_ZERO = Limit(
    lambda value: None if value > 0 else f"{value:g} is too small; allowed: more than 0",
    {"exclusiveMinimum": 0},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricArgs(Checked):
    """A metric for Kubernetes' HorizontalPodAutoscaler, which reads it from a metrics API. An
    adapter in the cluster has to serve that API; this stack installs none."""

    name: Annotated[str, _METRIC, Sent("HorizontalPodAutoscaler spec.metrics[]")]
    """The adapter's name for the metric."""
    type: Annotated[
        Literal["Pods", "External"], Sent("HorizontalPodAutoscaler spec.metrics[].type")
    ] = "Pods"
    """`Pods`: one value for each pod (`custom.metrics.k8s.io`). `External`: one value for the
    service, such as the length of a queue (`external.metrics.k8s.io`)."""
    average_value: Annotated[str, QUANTITY, Sent("HorizontalPodAutoscaler spec.metrics[]")]
    """The target value per pod: `"10"`, or `500m` for a half."""
    match_labels: Annotated[Labels, Sent("HorizontalPodAutoscaler spec.metrics[]")] = field(
        default_factory=dict
    )
    """Labels of the metric."""


_STRINGS = re.compile(r"""#.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`""")
"""Comments and strings of PromQL: https://prometheus.io/docs/prometheus/latest/querying/basics."""


def _unclosed(query: str) -> str | None:
    """Refuses a query with a quote or bracket that is never closed, which KEDA reports only in its
    log, and Prometheus not before the first request."""
    closing, pending = {"(": ")", "[": "]", "{": "}"}, list[str]()
    for letter in _STRINGS.sub("", query):
        if letter in closing:
            pending.append(closing[letter])
        elif letter in "\"'`" or (letter in ")]}" and (not pending or pending.pop() != letter)):
            return f"{shown(query)} has a {letter} too many; close or remove it"
    return f"{shown(query)} lacks a {pending[-1]}; add it" if pending else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusArgs(Checked):
    """A Prometheus query for KEDA, which must be installed in the cluster beforehand: without its
    type `ScaledObject`, `pulumi up` fails. Unlike a HorizontalPodAutoscaler, it scales up from
    zero, if the query has a value when no pod runs: the requests at a gateway, for instance, but
    not a metric of the pods."""

    server_address: Annotated[
        str, _URL, Sent("ScaledObject spec.triggers[].metadata.serverAddress")
    ]
    """The URL of Prometheus for KEDA. A password does not belong here, but in `authentication`."""
    query: Annotated[
        str, MinLen(1), Limit(_unclosed), Sent("ScaledObject spec.triggers[].metadata.query")
    ]
    """PromQL that yields one number for the whole service."""
    threshold: Annotated[
        float, _ABOVE_ZERO, Sent("ScaledObject spec.triggers[].metadata.threshold")
    ]
    """The target value per pod: the number of pods is the query's result divided by it."""
    activation_threshold: Annotated[
        float, Ge(0), Sent("ScaledObject spec.triggers[].metadata.activationThreshold")
    ] = 0
    """The first pod starts when the query's result exceeds this value."""
    authentication: Annotated[
        str | None, SUBDOMAIN, Sent("ScaledObject spec.triggers[].authenticationRef.name")
    ] = None
    """An existing TriggerAuthentication of KEDA, in the service's namespace, for Prometheus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingArgs(Checked):
    """Scales the number of pods by a metric. Set either `metric` or `prometheus`."""

    min_replicas: Annotated[
        int,
        Ge(0),
        Sent("HorizontalPodAutoscaler spec.minReplicas", "ScaledObject spec.minReplicaCount"),
    ] = 1
    """The minimum number of pods, which is also the initial number; 0 requires `prometheus`, or
    Kubernetes 1.37 and a `metric` of type `External`."""
    max_replicas: Annotated[
        int,
        Ge(1),
        Sent("HorizontalPodAutoscaler spec.maxReplicas", "ScaledObject spec.maxReplicaCount"),
    ]
    """The maximum number of pods."""
    metric: MetricArgs | None = None
    """The metric of the HorizontalPodAutoscaler."""
    prometheus: PrometheusArgs | None = None
    """The metric that KEDA queries."""
    idle_seconds: Annotated[
        int,
        Interval(ge=0, le=3600),
        Sent(
            "HorizontalPodAutoscaler spec.behavior.scaleDown.stabilizationWindowSeconds",
            "ScaledObject spec.cooldownPeriod",
        ),
    ] = 300
    """How many seconds the metric must be low before pods are removed; more than a model needs to
    load."""

    ORDERS: ClassVar = (Order("min_replicas", "max_replicas"),)

    @rule
    def _check_source(self) -> None:
        if (self.metric is None) == (self.prometheus is None):
            raise refuse("metric")("give either metric or prometheus")

    def possible(self, key: str) -> Range | None:
        """What the other settings allow for this one, for certain: see `check_zero`."""
        return Range(1, None) if key == "minReplicas" and self.metric is not None else None

    def check_zero(self, minor: int) -> None:
        """Raises `Refusal` if a HorizontalPodAutoscaler of 1.`minor` may not have 0 pods: its
        feature gate HPAScaleToZero is on since 1.37, but not for metrics of pods.
        https://kubernetes.io/blog/2026/09/02/kubernetes-v1-37-hpa-scale-to-zero-beta, 2026-11-24
        """
        if self.min_replicas or self.metric is None:
            return
        if minor < 37:
            raise refuse("minReplicas")(
                "Kubernetes before 1.37 refuses 0 in a HorizontalPodAutoscaler, and "
                "cluster.version is not known to be newer; set it to 1, or use prometheus "
                "instead of metric, which needs KEDA in the cluster"
            )
        if self.metric.type == "Pods":
            raise refuse(("metric", "type"))(
                "Pods has no value without a pod, so Kubernetes refuses minReplicas 0",
                remedy="use External, or set minReplicas to 1",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceArgs(GpuPodArgs):
    """An HTTP server on a GPU pool, for instance for inference, with its own name in the cluster: a
    Deployment and a Service. An update replaces its pods one at a time and needs no spare GPU; a
    service with one pod does not answer during an update."""

    port: Annotated[int, Interval(ge=1, le=65535), Sent("Service spec.ports[]"), Example("8000")]
    """The port on which the container listens, which is also the Service's port."""
    readiness_path: Annotated[str, _PATH, Sent("PodSpec containers[].readinessProbe")] = "/health"
    """The HTTP path that answers with 200 once the model is loaded; only such pods get requests."""
    liveness_path: Annotated[str, _PATH, Sent("PodSpec containers[].livenessProbe")] = "/health"
    """The HTTP path that answers with 200 unless the container has to be restarted."""
    startup_seconds: Annotated[
        int, Interval(ge=10, le=86400), Sent("PodSpec containers[].startupProbe")
    ] = 1800
    """How many seconds a container may take to load its model. After that, it is restarted."""
    replicas: Annotated[
        Annotated[int, Ge(0)] | None,
        never(scaling=True)("scaling sets the number of pods; drop one of the two"),
        Sent("Deployment spec.replicas"),
    ] = None
    """The number of pods without `scaling`; by default, 1."""
    scaling: ScalingArgs | None = None
    """Scales the number of pods by a metric."""
    callers: Annotated[
        Sequence[Annotated[str, DNS_LABEL]], UNIQUE, Sent("NetworkPolicy spec.ingress[]")
    ] = ()
    """Namespaces in addition to the service's own whose pods may call it and read its metrics. This
    is enforced only if the cluster enforces NetworkPolicies."""
    wait: Annotated[bool, Sent("Deployment metadata.annotations")] = False
    """Whether `pulumi up` waits until its pods are ready."""

    @property
    def noun(self) -> str:
        """The name of its kind in warnings."""
        return "service"

    @property
    def least(self) -> int:
        """The minimum number of pods that run at once."""
        return self.scaling.min_replicas if self.scaling else self.pods

    def warnings(self) -> Iterator[str]:
        """Warnings about the entry itself, each beginning with a key of it."""
        if self.pods == 0:
            yield (
                "replicas: is 0, so that none of its pods run; raise it, or set scaling with "
                "minReplicas: 0, unless that is intended"
            )
        if self.scaling and self.scaling.prometheus:
            yield (
                "scaling.prometheus: needs KEDA, which this stack does not install: without it in "
                "the cluster, pulumi up fails at the ScaledObject; install it first"
            )

    @property
    def pods(self) -> int:
        """The maximum number of pods that run at once."""
        if self.scaling:
            return self.scaling.max_replicas
        return 1 if self.replicas is None else self.replicas

    def check_fits(self, pool: GpuPool) -> None:
        """Raises `Refusal` if `pool` could never run this service."""
        GpuPodArgs.check_fits(self, pool)
        self.check_held("scaling.maxReplicas" if self.scaling else "replicas", self.pods, pool)

    def contract(self, name: str) -> Mapping[str, Any]:
        """The service as published in the stack output `services`; its hostname can be resolved in
        every namespace, whatever the cluster's domain is."""
        hostname = f"{name}.{self.namespace}.svc"
        return {
            "namespace": self.namespace,
            "hostname": hostname,
            "port": self.port,
            "url": f"http://{hostname}:{self.port}",
        }
