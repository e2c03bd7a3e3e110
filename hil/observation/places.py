"""Where an observation finds things on a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hil.inspection import NodeFacts, kubelet_of

#: How the name of every pod of pinproof begins; an observation ignores all others.
OURS: Final = "pinproof-"


@dataclass(frozen=True, slots=True)
class Places:
    """``cgroup`` is 1 or 2; ``mount`` the hierarchy with the cpuset controller, ``cpu_mount`` the
    one with the cpu controller (the same on v2). ``runtime_dirs`` are folders of containerd's
    tasks and of CRI-O's containers. ``pods_url`` is ``""`` where the kubelet lists its pods only
    with credentials."""

    unit: str
    state_file: str
    root_dir: str
    manifests: str
    cgroup: int
    mount: str
    cpu_mount: str
    runtime_dirs: tuple[str, ...]
    pods_url: str
    #: The runtime's socket.
    socket: str = ""
    #: Files that only this run may change: configuration, unit, the runtime's socket.
    watched: tuple[str, ...] = ()

    @classmethod
    def of(cls, facts: NodeFacts) -> Places:
        """The places on a node with a kubelet. Raises :class:`hil.shell.NodeUnfit`
        without one."""
        kubelet = kubelet_of(facts)
        mount = facts.cgroup.mount or "/sys/fs/cgroup"
        version = facts.cgroup.version
        socket = facts.runtime.endpoint.removeprefix("unix://")
        unit = facts.units.get(kubelet.unit)
        files = (kubelet.config_path, *kubelet.drop_ins, *(unit.files if unit else ()))
        # A folder changes with each file that is added to it.
        folders = {path.rpartition("/")[0] for path in files if path.endswith(".conf")}
        watched = [*files, *sorted(folders), socket]
        return cls(
            unit=kubelet.unit or "kubelet.service",
            state_file=kubelet.state_path or f"{kubelet.root_dir}/cpu_manager_state",
            root_dir=kubelet.root_dir,
            manifests=kubelet.manifests,
            cgroup=version,
            mount=mount,
            cpu_mount=mount if version == 2 else f"{mount.rpartition('/')[0]}/cpu",
            runtime_dirs=_runtime_dirs(facts.runtime.endpoint),
            pods_url=pods_url(kubelet.settings),
            socket=socket,
            watched=tuple(dict.fromkeys(path for path in watched if path.startswith("/"))),
        )


def _runtime_dirs(endpoint: str) -> tuple[str, ...]:
    """Containerd keeps ``init.pid`` and ``config.json`` of each task beside its socket; CRI-O
    keeps ``pidfile`` and ``config.json`` in the store of containers/storage."""
    folder = endpoint.removeprefix("unix://").rpartition("/")[0] or "/run/containerd"
    return (
        f"{folder}/io.containerd.runtime.v2.task/k8s.io/*",
        "/run/containers/storage/overlay-containers/*/userdata",
    )


def pods_url(settings: Any) -> str:
    """The URL at which the kubelet lists its pods without credentials; ``""``: there is none."""
    port = settings.get("readOnlyPort") or 0
    if port:
        return f"http://127.0.0.1:{port}/pods"
    anonymous = ((settings.get("authentication") or {}).get("anonymous") or {}).get("enabled")
    mode = (settings.get("authorization") or {}).get("mode")
    if anonymous and mode == "AlwaysAllow":
        return f"https://127.0.0.1:{settings.get('port') or 10250}/pods"
    return ""
