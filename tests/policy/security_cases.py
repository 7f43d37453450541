"""Cases of the rules on what pods may do to their node, and on Kubernetes RBAC."""

from dataclasses import replace
from typing import Any

from policy.standard import BY_ID
from tests.policy.cases import DROP, Case, Path, Rows, cases_of, changed
from tests.policy.resources import DEPLOYMENT, POD, installer, plugin, resource
from tests.policy.workload_cases import CRON_JOB, JOB_SET

MAIN = ("spec", "containers", 0)
CONTEXT = (*MAIN, "securityContext")


def says(control: str, line: str, who: str = "pod sample in namespace default") -> str:
    """What a broken control of the standard is called."""
    row = BY_ID[control]
    return (
        f"{who}: {line}; allowed by the Pod Security Standard {row.level} ({row.title}): "
        f"{row.allowed}"
    )


BASELINE: list[tuple[str, Path, Any, Any, str]] = [
    # control, path in a pod, a good value, a bad one, what is said of it
    ("hostProcess", ("spec", "securityContext", "windowsOptions", "hostProcess"), False, True,
     "securityContext.windowsOptions.hostProcess is true"),
    ("hostProcess", (*CONTEXT, "windowsOptions", "hostProcess"), None, True,
     "container main: securityContext.windowsOptions.hostProcess is true"),
    ("hostNamespaces", ("spec", "hostNetwork"), False, True, "hostNetwork is true"),
    ("hostNamespaces", ("spec", "hostPID"), None, True, "hostPID is true"),
    ("hostNamespaces", ("spec", "hostIPC"), False, True, "hostIPC is true"),
    ("privileged", (*CONTEXT, "privileged"), False, True,
     "container main: securityContext.privileged is true"),
    ("capabilities", (*CONTEXT, "capabilities", "add"), ["CHOWN", "mknod", "CAP_KILL"],
     ["SYS_PTRACE"], "container main adds the capability SYS_PTRACE"),
    ("capabilities", (*CONTEXT, "capabilities", "add"), ["NET_BIND_SERVICE", "DAC_OVERRIDE"],
     ["CHOWN", "net_admin"], "container main adds the capability net_admin"),
    ("capabilities", (*CONTEXT, "capabilities", "add" ), [], ["ALL"],
     "container main adds the capability ALL"),
    ("hostPorts", (*MAIN, "ports"), [{"containerPort": 80, "hostPort": 0}],
     [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}],
     "container main: ports[*].hostPort is 81"),
    ("hostProbes", (*MAIN, "livenessProbe", "httpGet", "host"), "", "169.254.169.254",
     "container main: livenessProbe.httpGet.host is 169.254.169.254"),
    ("hostProbes", (*MAIN, "lifecycle", "preStop", "tcpSocket", "host"), None, "10.0.0.1",
     "container main: lifecycle.preStop.tcpSocket.host is 10.0.0.1"),
    ("appArmor", (*CONTEXT, "appArmorProfile", "type"), "Localhost", "Unconfined",
     "container main: securityContext.appArmorProfile.type is Unconfined"),
    ("appArmor", ("spec", "securityContext", "appArmorProfile", "type"), "RuntimeDefault",
     "Unconfined", "securityContext.appArmorProfile.type is Unconfined"),
    ("seLinux", (*CONTEXT, "seLinuxOptions", "type"), "container_kvm_t", "spc_t",
     "container main: securityContext.seLinuxOptions.type is spc_t"),
    ("seLinux", ("spec", "securityContext", "seLinuxOptions", "user"), "", "root",
     "securityContext.seLinuxOptions.user is root"),
    ("seLinux", ("spec", "securityContext", "seLinuxOptions", "role"), None, "admin",
     "securityContext.seLinuxOptions.role is admin"),
    ("procMount", (*CONTEXT, "procMount"), "Default", "Unmasked",
     "container main: securityContext.procMount is Unmasked"),
    ("seccomp", ("spec", "securityContext", "seccompProfile", "type"), "RuntimeDefault",
     "Unconfined", "securityContext.seccompProfile.type is Unconfined"),
    ("seccomp", (*CONTEXT, "seccompProfile", "type"), "Localhost", "Unconfined",
     "container main: securityContext.seccompProfile.type is Unconfined"),
    ("sysctls", ("spec", "securityContext", "sysctls"), [{"name": "net.ipv4.tcp_rmem"}],
     [{"name": "kernel.shm_rmid_forced"}, {"name": "kernel.msgmax"}],
     "securityContext.sysctls[*].name is kernel.msgmax"),
]  # fmt: skip

SPEC = ("spec", "template", "spec")
RESTRICTED_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
}
RESTRICTED = changed(
    changed(POD, CONTEXT, RESTRICTED_CONTEXT),
    ("spec", "volumes"),
    [{"name": "tmp", "emptyDir": {}}],
)
BY_THE_POD = changed(
    changed(
        RESTRICTED,
        ("spec", "securityContext"),
        {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}},
    ),
    CONTEXT,
    {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["all"]}},
)
OWN_USERS = changed(
    changed(changed(RESTRICTED, ("spec", "hostUsers"), False), (*CONTEXT, "runAsUser"), 0),
    (*CONTEXT, "runAsNonRoot"),
    False,
)
NOT_RESTRICTED: list[tuple[str, Path, Any, str]] = [
    ("volumeTypes", ("spec", "volumes"), [{"name": "nfs", "nfs": {"server": "x"}}],
     "volume nfs is of the kind nfs"),
    ("allowPrivilegeEscalation", (*CONTEXT, "allowPrivilegeEscalation"), DROP,
     "container main: securityContext.allowPrivilegeEscalation is not false"),
    ("runAsNonRoot", (*CONTEXT, "runAsNonRoot"), False,
     "container main: securityContext.runAsNonRoot is false"),
    ("runAsNonRoot", (*CONTEXT, "runAsNonRoot"), DROP,
     "container main: securityContext.runAsNonRoot is not set"),
    ("runAsUser", (*CONTEXT, "runAsUser"), 0, "container main: securityContext.runAsUser is 0"),
    ("seccompRestricted", (*CONTEXT, "seccompProfile"), DROP,
     "container main: securityContext.seccompProfile.type is not set"),
    ("capabilitiesRestricted", (*CONTEXT, "capabilities", "drop"), ["NET_RAW"],
     "container main does not drop ALL capabilities"),
    ("capabilitiesRestricted", (*CONTEXT, "capabilities", "add"), ["CHOWN"],
     "container main adds the capability CHOWN"),
]  # fmt: skip


def kind(token: str, props: dict[str, Any]) -> Any:
    return resource(f"kubernetes:{token}", "sample", props, provider="gpu")


TEMPLATE = {"spec": POD.props["spec"]}
META = {"name": "sample"}
WORKLOADS: list[tuple[Any, Path, str]] = [
    # a resource, where its pod's spec is, what it is called
    (DEPLOYMENT, SPEC, "deployment sample"),
    (kind("apps/v1:StatefulSet", {"metadata": META, "spec": {"template": TEMPLATE}}), SPEC,
     "statefulset sample"),
    (kind("apps/v1:DaemonSet", {"metadata": META, "spec": {"template": TEMPLATE}}), SPEC,
     "daemonset sample"),
    (kind("core/v1:ReplicationController", {"metadata": META, "spec": {"template": TEMPLATE}}),
     SPEC, "replicationcontroller sample"),
    (kind("core/v1:PodTemplate", {"metadata": META, "template": TEMPLATE}), ("template", "spec"),
     "podtemplate sample"),
    (kind("core/v1:PodPatch", {"metadata": META, "spec": POD.props["spec"]}), ("spec",),
     "pod sample"),
    (kind("apps/v1:DeploymentPatch", {"metadata": META, "spec": {"template": TEMPLATE}}), SPEC,
     "deployment sample"),
    (kind("apps/v1:DeploymentList",
          {"items": [{"metadata": META, "spec": {"template": TEMPLATE}}]}),
     ("items", 0, *SPEC), "deployment sample"),
    (kind("batch/v1:Job", {"metadata": META, "spec": {"template": TEMPLATE}}), SPEC, "job sample"),
    (replace(CRON_JOB, name="sample"), ("spec", "jobTemplate", *SPEC), "cronjob nightly"),
    (JOB_SET, ("spec", "replicatedJobs", 0, "template", *SPEC), "jobset ring"),
    (kind("kubeflow.org/v1:PyTorchJob",
          {"metadata": META, "spec": {"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}}}),
     ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"), "pytorchjob sample"),
]  # fmt: skip
EPHEMERAL = changed(POD, ("spec", "ephemeralContainers"), [{"name": "debug", "image": "x:1"}])
COS_INSTALLER = installer({}, "nvidia-driver-installer-cos")
MPS = changed(
    changed(POD, ("spec", "hostIPC"), True),
    ("spec", "nodeSelector"),
    {"cloud.google.com/gke-sharing": "x", "cloud.google.com/gke-gpu-sharing-strategy": "mps"},
)
SYSTEM = changed(POD, ("metadata",), {"name": "sample", "namespace": "kube-system"})


def mounts(path: str, read_only: bool = True) -> Any:
    """A pod that mounts a directory of its node."""
    return changed(
        changed(POD, ("spec", "volumes"), [{"name": "v", "hostPath": {"path": path}}]),
        (*MAIN, "volumeMounts"),
        [{"name": "v", "mountPath": "/v", "readOnly": read_only}],
    )


OF_THE_NODE = (
    "/", "/etc", "/etc/kubernetes", "/root/.ssh", "/run/containerd", "/var/run/docker",
    "/run/containerd/containerd.sock", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods",
    "/home/kubernetes/bin", "/dev", "/dev/shm", "/sys", "/proc/1", "/usr", "/opt", "/lib/modules",
    "/var/log", "/mnt/k8s-disks/0", "/mnt/stateful_partition", "/data/../etc", "//etc",
    "/usr/lib/x86_64-linux-gnu-other", "/home/kubernetes/bin/nvidia/..",
)  # fmt: skip
NEEDED = ("/home/kubernetes/bin/nvidia", "/usr/lib/x86_64-linux-gnu/", "/usr/local/nvidia/lib64")
VOLUME = resource(
    "kubernetes:core/v1:PersistentVolume",
    "models",
    {"spec": {"accessModes": ["ReadWriteOnce"], "local": {"path": "/mnt/disks/ssd0"}}},
    provider="gpu",
)

CLUSTER_ROLE = resource(
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
    "reader",
    {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    provider="gpu",
)
BINDING = resource(
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", "reader",
    {"roleRef": {"kind": "ClusterRole", "name": "reader"},
     "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "a"}]}, provider="gpu",
)  # fmt: skip
PATCH = replace(CLUSTER_ROLE, type="kubernetes:rbac.authorization.k8s.io/v1:ClusterRolePatch")
RULES: list[tuple[Any, str, Any, str]] = [
    (CLUSTER_ROLE, "verbs", ["*"], "ClusterRole reader allows * in verbs; name the verbs that are "
     "needed"),
    (PATCH, "resources", ["*"], "ClusterRole reader allows * in resources; name the resources that "
     "are needed"),
    (replace(CLUSTER_ROLE, type="kubernetes:rbac.authorization.k8s.io/v1:Role"), "apiGroups", ["*"],
     "Role reader allows * in apiGroups; name the API groups that are needed"),
    (CLUSTER_ROLE, "verbs", ["impersonate"], "ClusterRole reader allows impersonate of pods, which "
     "lets its holder act as anybody else; drop it"),
    (CLUSTER_ROLE, "resources", ["nodes/proxy"], "ClusterRole reader allows get of nodes/proxy, "
     "which reaches every pod through the kubelet, past the audit log; drop it"),
]  # fmt: skip
ESCALATING = [
    ("clusterroles", "escalate", "gives its holder every permission"),
    ("roles", "bind", "gives its holder every permission"),
    ("serviceaccounts/token", "create", "lets its holder act as any service account"),
    ("certificatesigningrequests/approval", "update", "signs a certificate for anybody"),
]

ENFORCE = "pod-security.kubernetes.io/enforce"
NAMESPACE = resource(
    "kubernetes:core/v1:Namespace",
    "team",
    {"metadata": {"name": "team", "labels": {ENFORCE: "baseline"}}},
    provider="gpu",
)
MONITORING = changed(
    NAMESPACE, ("metadata",), {"name": "gpu-monitoring-system", "labels": {ENFORCE: "privileged"}}
)
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/main"

ROWS: Rows = {
    "pod-security-baseline": [
        ((EPHEMERAL,), ("spec", "ephemeralContainers", 0, "securityContext", "privileged"), True,
         says("privileged", "container debug: securityContext.privileged is true")),
        ((changed(POD, ("metadata", "annotations"), {APP_ARMOR: "localhost/x"}),),
         ("metadata", "annotations", APP_ARMOR), "unconfined",
         says("appArmor", f"annotation {APP_ARMOR} is unconfined")),
        ((COS_INSTALLER, plugin({}, "nvidia-device-plugin"), SYSTEM), (*CONTEXT, "privileged"),
         True, says("privileged", "container main: securityContext.privileged is true",
                    "pod sample in namespace kube-system")),
        ((changed(COS_INSTALLER, ("metadata",),
                  {"name": "nvidia-driver-installer-cos", "namespace": "kube-system"}),),
         ("metadata", "namespace"), "default",
         says("privileged",
              "container nvidia-driver-installer: securityContext.privileged is true",
              "daemonset nvidia-driver-installer-cos in namespace default")),
        ((MPS, POD), ("spec", "hostIPC"), True, says("hostNamespaces", "hostIPC is true")),
        ((changed(SYSTEM, (*CONTEXT, "privileged"), True),), ("spec", "hostPID"), True,
         says("hostNamespaces", "hostPID is true", "pod sample in namespace kube-system"),
         {"exempt": {"kube-system/Pod/sam*": ["privileged"]}}),
    ],
    "host-paths": [
        ((mounts("/usr/lib64"),), (*MAIN, "volumeMounts", 0, "readOnly"), False,
         "pod sample in namespace default mounts /usr/lib64 of its node for writing; set readOnly "
         "on each volumeMount"),
        ((mounts("/lustre/shared", False),), ("spec", "volumes", 0, "hostPath", "path"),
         "/lustre-other",
         "pod sample in namespace default mounts /lustre-other of its node; drop it, or allow the "
         "directory in policy/config.json (host-paths: paths)", {"paths": ["/lustre"]}),
        ((changed(SYSTEM, ("spec", "volumes"), [{"name": "v", "hostPath": {"path": "/"}}]),),
         ("metadata", "namespace"), "default",
         "pod sample in namespace default mounts / of its node; drop it, or allow the directory in "
         "policy/config.json (host-paths: paths)",
         {"exempt": {"kube-system/Pod/sample": ["hostPath"]}}),
        ((VOLUME,), ("spec", "local", "path"), "/var/lib/kubelet",
         "PersistentVolume models mounts /var/lib/kubelet of its node; drop it, or allow the "
         "directory in policy/config.json (host-paths: paths)"),
    ],
    "rbac-too-broad": [
        ((BINDING,), ("roleRef", "name"), "cluster-admin",
         "ClusterRoleBinding reader gives cluster-admin, which has all permissions; bind a role "
         "with only the permissions that are needed"),
        ((BINDING,), ("subjects", 0, "name"), "system:masters",
         "ClusterRoleBinding reader names the group system:masters, which no rule can restrict; "
         "name the subjects that need it"),
    ],
}  # fmt: skip

CASES = [
    *cases_of(ROWS),
    *(
        Case(
            rule="namespace-enforces",
            good=(MONITORING, NAMESPACE),
            path=("metadata", "labels", ENFORCE),
            bad=bad,
            message="Namespace team has no level of the Pod Security Standards that the cluster "
            f"enforces: the label {ENFORCE} sets {given}; set baseline or restricted, or "
            "name it in policy/config.json (namespace-enforces: privileged)",
        )
        for bad, given in ((DROP, "none"), ("privileged", "privileged"), ("Baseline", "Baseline"))
    ),
    *(
        Case(
            rule="pod-security-baseline",
            good=(changed(POD, path, good), POD, changed(POD, path, good)),
            path=path,
            bad=bad,
            message=says(control, line),
        )
        for control, path, good, bad, line in BASELINE
    ),
    *(
        Case(
            rule="pod-security-baseline",
            good=(changed(one, (*path, "hostPID"), False),),
            path=(*path, "hostPID"),
            bad=True,
            message=says("hostNamespaces", "hostPID is true", f"{who} in namespace default"),
        )
        for one, path, who in WORKLOADS
    ),
    *(
        Case(
            rule="pod-security-restricted",
            good=(BY_THE_POD, OWN_USERS, RESTRICTED),
            path=path,
            bad=bad,
            message=says(control, line),
            config={"stacks": ["dev"]},
        )
        for control, path, bad, line in NOT_RESTRICTED
    ),
    *(
        Case(
            rule="host-paths",
            good=(COS_INSTALLER, *map(mounts, NEEDED), mounts("/mnt/disks/ssd0", False)),
            path=("spec", "volumes", 0, "hostPath", "path"),
            bad=path,
            message=f"pod sample in namespace default mounts {path} of its node; drop it, or allow "
            "the directory in policy/config.json (host-paths: paths)",
        )
        for path in OF_THE_NODE
    ),
    *(
        Case(rule="rbac-too-broad", good=(one,), path=("rules", 0, field), bad=bad, message=message)
        for one, field, bad, message in RULES
    ),
    *(
        Case(
            rule="rbac-too-broad",
            good=(CLUSTER_ROLE, changed(CLUSTER_ROLE, ("rules", 0, "resources"), [held])),
            path=("rules", 0, "verbs"),
            bad=["list", verb],
            message=f"ClusterRole reader allows {verb} of {held}, which {effect}; drop it",
        )
        for held, verb, effect in ESCALATING
    ),
    *(
        Case(
            rule="rbac-too-broad",
            good=(BINDING,),
            path=("subjects", 0, "name"),
            bad=name,
            message=f"ClusterRoleBinding reader gives a role to {name}, which means {who} ; name "
            "the subjects that need it",
        )
        for name, who in (
            ("system:anonymous", "everyone who is not signed in"),
            ("system:unauthenticated", "everyone who is not signed in"),
            ("system:authenticated", "everyone who is signed in, on GKE every Google account"),
        )
    ),
]
