"""The Pod Security Standards, control by control, as data.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ and the admission plugin's own
checks, kubernetes/kubernetes staging/src/k8s.io/pod-security-admission/policy (read 2026-11-21), as
of Kubernetes 1.34. `HostPath Volumes` is a separate rule here: `policy.host_paths`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from gpu_cluster.policy.pods import Pods, container_name
from gpu_cluster.policy.reading import UNKNOWN, entries, get, items

Level = Literal["baseline", "restricted"]

_UNSET = (None, "")
_PROFILES = ("RuntimeDefault", "Localhost")
_DEFAULT_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
"""Capabilities that container runtimes grant by default, and that the baseline allows."""
_SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)  # fmt: skip
_SELINUX_TYPES = (*_UNSET, "container_t", "container_init_t", "container_kvm_t",
                  "container_engine_t")  # fmt: skip
_HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart",
             "lifecycle.preStop")  # fmt: skip
_VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "hostPath",
            "persistentVolumeClaim", "projected", "secret")  # fmt: skip
"""The volume types of `restricted`; the rule `host-paths` decides about `hostPath`."""
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"

Found = Iterator[str]
"""The violations, each a predicate of the pod: `sets hostPID`."""


@dataclass(frozen=True, slots=True)
class Control:
    """One control of the standard."""

    id: str
    """The ID that exemptions use."""
    title: str
    """The title in the standard's own table."""
    level: Level
    allowed: str
    """The allowed values, for people."""
    judge: Callable[[Pods], Found]


def _only(*allowed: Any, paths: Sequence[str]) -> Callable[[Pods], Found]:
    """Only these values are allowed at these paths in the pod's spec and in its containers."""

    def judge(pods: Pods) -> Found:
        for where, value in _values(pods, paths):
            if value is not UNKNOWN and value not in allowed:
                yield f"{where} is {_shown(value)}"

    return judge


def _values(pods: Pods, paths: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The values at each path: `hostPID`; `containers[*].x` covers every kind of container."""
    for path in paths:
        field = path.removeprefix("containers[*].")
        holders = [("", pods.spec)]
        if field != path:
            holders = [(f"container {container_name(item)}: ", item) for item in pods.containers]
        for who, holder in holders:
            yield from ((f"{who}{field}", value) for value in _at(holder, field.split(".")))


def _at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    for number, step in enumerate(steps):
        if step.endswith("[*]"):
            for item in items(value, step.removesuffix("[*]")):
                yield from _at(item, steps[number + 1 :])
            return
        value = get(value, step)
    yield value


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _added(*allowed: str) -> Callable[[Pods], Found]:
    def judge(pods: Pods) -> Found:
        for container in pods.containers:
            for added in items(container, "securityContext", "capabilities", "add"):
                # The runtime also accepts lowercase names and the prefix.
                if isinstance(added, str) and added.upper().removeprefix("CAP_") not in allowed:
                    yield f"container {container_name(container)} adds the capability {added}"

    return judge


def _app_armor_annotations(pods: Pods) -> Found:
    for key, value in (entries(pods.metadata, "annotations") or {}).items():
        fits = isinstance(value, str) and any(
            fnmatchcase(value, pattern) for pattern in ("runtime/default", "localhost/*")
        )
        if key.startswith(_APP_ARMOR) and value is not UNKNOWN and not fits:
            yield f"annotation {key} is {value}"


def _app_armor(pods: Pods) -> Found:
    field = "securityContext.appArmorProfile.type"
    yield from _only(None, *_PROFILES, paths=(field, f"containers[*].{field}"))(pods)
    yield from _app_armor_annotations(pods)


def _user_namespace(pods: Pods) -> bool:
    """Whether the pod has, or may have, a user namespace, whose root is harmless to the node."""
    return get(pods.spec, "hostUsers") in (False, UNKNOWN)


def _proc_mount(pods: Pods) -> Found:
    if not _user_namespace(pods):
        yield from _only(None, "Default", paths=("containers[*].securityContext.procMount",))(pods)


def _required(field: str, *allowed: Any) -> Callable[[Pods], Found]:
    """Each container has one of these values, set on itself or on the pod."""

    def judge(pods: Pods) -> Found:
        steps = field.split(".")
        whole = get(pods.spec, *steps)
        for container in pods.containers:
            own_value = get(container, *steps)
            value = whole if own_value is None else own_value
            if value is not UNKNOWN and value not in allowed:
                shown = "not set" if value is None else _shown(value)
                yield f"container {container_name(container)}: {field} is {shown}"

    return judge


def _non_root(pods: Pods) -> Found:
    if not _user_namespace(pods):
        yield from _required("securityContext.runAsNonRoot", True)(pods)


def _no_root_user(pods: Pods) -> Found:
    if not _user_namespace(pods):
        field = "securityContext.runAsUser"
        for where, value in _values(pods, (field, f"containers[*].{field}")):
            if value == 0 and value is not False:
                yield f"{where} is 0"


def _no_escalation(pods: Pods) -> Found:
    for container in pods.containers:
        value = get(container, "securityContext", "allowPrivilegeEscalation")
        if value is not UNKNOWN and value is not False:
            name = container_name(container)
            yield f"container {name}: securityContext.allowPrivilegeEscalation is not false"


def _drops_all(pods: Pods) -> Found:
    for container in pods.containers:
        dropped = items(container, "securityContext", "capabilities", "drop")
        if UNKNOWN not in dropped and "ALL" not in [str(name).upper() for name in dropped]:
            yield f"container {container_name(container)} does not drop ALL capabilities"
    yield from _added("NET_BIND_SERVICE")(pods)


def _volume_types(pods: Pods) -> Found:
    for volume in items(pods.spec, "volumes"):
        kinds = [key for key in entries(volume) or {} if key != "name"]
        for kind in kinds:
            if kind not in _VOLUMES:
                yield f"volume {get(volume, 'name')} is of the kind {kind}"


def _contexts(field: str) -> tuple[str, str]:
    return f"securityContext.{field}", f"containers[*].securityContext.{field}"


CONTROLS: Sequence[Control] = (
    Control("hostProcess", "HostProcess", "baseline", "false or not set",
            _only(None, False, paths=_contexts("windowsOptions.hostProcess"))),
    Control("hostNamespaces", "Host Namespaces", "baseline",
            "hostNetwork, hostPID and hostIPC false or not set",
            _only(None, False, paths=("hostNetwork", "hostPID", "hostIPC"))),
    Control("privileged", "Privileged Containers", "baseline", "false or not set",
            _only(None, False, paths=("containers[*].securityContext.privileged",))),
    Control("capabilities", "Capabilities", "baseline",
            f"to add: {', '.join(_DEFAULT_CAPABILITIES)}", _added(*_DEFAULT_CAPABILITIES)),
    Control("hostPorts", "Host Ports", "baseline", "0 or not set",
            _only(None, 0, paths=("containers[*].ports[*].hostPort",))),
    Control("hostProbes", "Host Probes / Lifecycle Hooks", "baseline", "empty or not set",
            _only(*_UNSET, paths=tuple(f"containers[*].{handler}.{action}.host"
                                       for handler in _HANDLERS
                                       for action in ("httpGet", "tcpSocket")))),
    Control("appArmor", "AppArmor", "baseline",
            "RuntimeDefault, Localhost or not set; as annotations runtime/default, localhost/*",
            _app_armor),
    Control("seLinux", "SELinux", "baseline",
            f"type {', '.join(str(kind) for kind in _SELINUX_TYPES if kind)} or not set; no user, "
            "no role",
            lambda pods: (line for part, allowed in (("type", _SELINUX_TYPES), ("user", _UNSET),
                                                     ("role", _UNSET))
                          for line in _only(*allowed,
                                            paths=_contexts(f"seLinuxOptions.{part}"))(pods))),
    Control("procMount", "/proc Mount Type", "baseline",
            "Default or not set, unless hostUsers is false", _proc_mount),
    Control("seccomp", "Seccomp", "baseline", "RuntimeDefault, Localhost or not set",
            _only(None, *_PROFILES, paths=_contexts("seccompProfile.type"))),
    Control("sysctls", "Sysctls", "baseline", ", ".join(_SYSCTLS),
            _only(None, *_SYSCTLS, paths=("securityContext.sysctls[*].name",))),
    Control("volumeTypes", "Volume Types", "restricted", ", ".join(_VOLUMES), _volume_types),
    Control("allowPrivilegeEscalation", "Privilege Escalation", "restricted", "false",
            _no_escalation),
    Control("runAsNonRoot", "Running as Non-root", "restricted",
            "true, unless hostUsers is false", _non_root),
    Control("runAsUser", "Running as Non-root user", "restricted",
            "not 0, unless hostUsers is false", _no_root_user),
    Control("seccompRestricted", "Seccomp", "restricted", "RuntimeDefault or Localhost",
            _required("securityContext.seccompProfile.type", *_PROFILES)),
    Control("capabilitiesRestricted", "Capabilities", "restricted",
            "drop ALL; to add: NET_BIND_SERVICE", _drops_all),
)  # fmt: skip
"""The standard's table."""
