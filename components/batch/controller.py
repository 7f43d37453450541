"""A controller with admission webhooks: JobSet and Kueue are structured alike.

Names, certificates and probes follow kubernetes-sigs/kueue 0.16.2 and kubernetes-sigs/jobset
0.12.0, config/default (read 2026-11-21). Each controller creates its own certificates, stores them
in its Secret and writes its CA into its webhook configurations; this stack declares neither field.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..access import rights
from ..cluster import Cluster
from ..crds import definitions
from . import controller_pod
from .controller_args import WEBHOOK_PORT, ControllerArgs, Webhook


class Controller(pulumi.ComponentResource):
    """The controller's custom resource definitions, RBAC, webhooks and Deployment."""

    deployment: kubernetes.apps.v1.Deployment

    def __init__(
        self,
        name: str,
        args: ControllerArgs,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:batch:Controller", name, None, opts)
        self._args, self._cluster = args, cluster
        # Created before anything else: they fail if the controller is already installed.
        kinds = definitions.declare(
            args.source,
            cluster=cluster,
            parent=self,
            protected=args.protected,
            conversions=dict.fromkeys(args.converted, self._conversion),
        )
        self._homespace = kubernetes.core.v1.Namespace(
            self._home,
            metadata={
                "name": self._home,
                # Both controllers comply with it: kubernetes.io, "Pod Security Standards".
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
            opts=cluster.options(self, depends_on=kinds[:1]),
        )
        before = [*kinds, *self._rights(), *self._configuration(), *self._webhooks()]
        self.deployment = kubernetes.apps.v1.Deployment(
            self._manager,
            metadata=self._metadata(self._manager),
            spec=controller_pod.deployment(args, self._manager),
            opts=self._options(*before),
        )
        kubernetes.core.v1.Service(
            self._named("webhook-service"),
            metadata=self._metadata(self._named("webhook-service")),
            spec={
                "selector": controller_pod.labels(args),
                "ports": [{"name": "webhook", "port": 443, "target_port": WEBHOOK_PORT}],
            },
            opts=self._options(),
        )
        self.register_outputs({})

    @property
    def _home(self) -> str:
        return f"{self._args.source}-system"

    @property
    def _manager(self) -> str:
        return self._named("controller-manager")

    def _named(self, suffix: str) -> str:
        return f"{self._args.source}-{suffix}"

    def _metadata(self, name: str, *, namespaced: bool = True) -> ObjectMetaArgsDict:
        metadata: ObjectMetaArgsDict = {"name": name, "labels": controller_pod.labels(self._args)}
        return {**metadata, "namespace": self._home} if namespaced else metadata

    def _options(self, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        return self._cluster.options(self, depends_on=[self._homespace, *depends_on])

    def _rights(self) -> list[pulumi.Resource]:
        name, options = self._manager, self._options()
        return [
            kubernetes.core.v1.ServiceAccount(name, metadata=self._metadata(name), opts=options),
            *rights.declare(
                name,
                account=name,
                namespace=self._home,
                labels=controller_pod.labels(self._args),
                cluster_rules=[*self._args.rules, *_webhook_rules(self._configurations)],
                own_rules=_own_rules(self._args),
                opts=options,
            ),
        ]

    def _configuration(self) -> list[pulumi.Resource]:
        name, secret = self._named("manager-config"), self._named("webhook-server-cert")
        return [
            kubernetes.core.v1.ConfigMap(
                name,
                metadata=self._metadata(name),
                data={"controller_manager_config.yaml": controller_pod.configuration(self._args)},
                opts=self._cluster.options(
                    self, delete_before_replace=True, depends_on=[self._homespace]
                ),
            ),
            # Created empty: the controller fills it, and is not allowed to create one.
            kubernetes.core.v1.Secret(
                secret, metadata=self._metadata(secret), opts=self._options()
            ),
        ]

    @property
    def _configurations(self) -> list[str]:
        return [self._named(f"{kind}-webhook-configuration") for kind in ("mutating", "validating")]

    def _webhooks(self) -> list[pulumi.Resource]:
        mutating, validating = self._configurations
        hooks = self._args.webhooks
        return [
            kubernetes.admissionregistration.v1.MutatingWebhookConfiguration(
                mutating,
                metadata=self._metadata(mutating, namespaced=False),
                webhooks=[self._hook(hook, "mutate") for hook in hooks if hook.completes],
                opts=self._options(),
            ),
            kubernetes.admissionregistration.v1.ValidatingWebhookConfiguration(
                validating,
                metadata=self._metadata(validating, namespaced=False),
                webhooks=[self._hook(hook, "validate") for hook in hooks],
                opts=self._options(),
            ),
        ]

    def _webhook_service(self, path: str) -> dict[str, str]:
        return {"name": self._named("webhook-service"), "namespace": self._home, "path": path}

    @property
    def _conversion(self) -> dict[str, Any]:
        """The `conversion` field of a definition's spec."""
        client = {"service": self._webhook_service("/convert")}
        return {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }

    def _hook(self, hook: Webhook, verb: str) -> Any:
        updates = verb == "validate" and hook.updates
        selector = {"match_expressions": [{"key": hook.label, "operator": "Exists"}]}
        return {
            "name": f"{verb[0]}{hook.kind}.kb.io",
            "admission_review_versions": ["v1"],
            "client_config": {"service": self._webhook_service(hook.path(verb))},
            "failure_policy": "Fail",
            "object_selector": selector if hook.label else None,
            "rules": [
                {
                    "api_groups": [hook.group],
                    "api_versions": [hook.version],
                    "operations": ["CREATE", "UPDATE"] if updates else ["CREATE"],
                    "resources": list(hook.resources if verb == "validate" else hook.resources[:1]),
                }
            ],
            "side_effects": "None",
        }


def _webhook_rules(names: Sequence[str]) -> list[PolicyRuleArgsDict]:
    kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    group = "admissionregistration.k8s.io"
    return [
        rights.rule(group, kinds, "list", "watch"),
        rights.rule(group, kinds, "get", "update", only=names),
    ]


def _own_rules(args: ControllerArgs) -> list[PolicyRuleArgsDict]:
    return [
        rights.rule("", ["secrets"], "list", "watch"),
        rights.rule("", ["secrets"], "get", "update", only=[f"{args.source}-webhook-server-cert"]),
        rights.rule("coordination.k8s.io", ["leases"], "create"),
        rights.rule("coordination.k8s.io", ["leases"], "get", "update", only=[args.lease]),
        rights.rule("", ["events"], "create", "patch"),
    ]
