"""How kubelet releases differ in starting and in building one.

What belongs here: which release has which setting, and what a build of it needs. What never does:
what its CPU manager does (``reference.releases``). Sources: the releases' own code and starts of
1.17.17, 1.20.15, 1.22.17, 1.26.15, 1.32.2, 1.36.3, 1.36.4 and 1.37.0 in a sandbox.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Minor(NamedTuple):
    """A Kubernetes minor release; compares as a pair."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Version(NamedTuple):
    """An exact release; compares as a triple. ``str()`` is ``1.36.4``."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def release(self) -> Minor:
        """The minor release."""
        return Minor(self.major, self.minor)


_NUMBER: Final = r"(?:0|[1-9][0-9]{0,3})"
_MINOR: Final = re.compile(rf"v?({_NUMBER})\.({_NUMBER})", re.ASCII)
_VERSION: Final = re.compile(rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})", re.ASCII)


def parse(text: str) -> Minor | Version | None:
    """``"1.36"`` or ``"1.36.4"``, with or without a ``v``; ``None`` for anything else."""
    if match := _MINOR.fullmatch(text):
        return Minor(*map(int, match.groups()))
    if match := _VERSION.fullmatch(text):
        return Version(*map(int, match.groups()))
    return None


OLDEST: Final = Minor(1, 17)

# --- starting -------------------------------------------------------------------------------

#: The release from which on a kubelet knows a field of KubeletConfiguration; earlier ones refuse
#: it.
FIELD_SINCE: Final = {
    "cpuManagerPolicyOptions": Minor(1, 22),
    "localStorageCapacityIsolation": Minor(1, 25),
    "containerRuntimeEndpoint": Minor(1, 27),
    "imageServiceEndpoint": Minor(1, 27),
    "podLogsDir": Minor(1, 30),
    "failCgroupV1": Minor(1, 31),
}
#: The same as a flag, for releases without the field.
FLAG_BEFORE: Final = {
    "containerRuntimeEndpoint": "--container-runtime-endpoint",
    "imageServiceEndpoint": "--image-service-endpoint",
}
#: The same as a feature gate, for releases without the field.
GATE_BEFORE: Final = {"localStorageCapacityIsolation": "LocalStorageCapacityIsolation"}
#: ``--container-runtime=remote`` is needed up to this release (dockershim was the default), and
#: refused from 1.27 on.
REMOTE_FLAG_UNTIL: Final = Minor(1, 23)
#: From the first to the last of these a kubelet connects to Docker before anything else, and waits
#: five seconds for it: :mod:`conformance.subjects.kubelet.docker`.
ASKS_FOR_DOCKER: Final = (Minor(1, 19), Minor(1, 23))
#: From this release on, where resizes in place are enabled (by default from 1.33), a pod needs a
#: cgroup: :mod:`conformance.subjects.kubelet.inside.cgroups`.
POD_CGROUPS_SINCE: Final = Minor(1, 27)


def asks_for_docker(release: Minor) -> bool:
    """Whether the kubelet starts at once only if Docker is there."""
    first, last = ASKS_FOR_DOCKER
    return first <= release <= last


# --- building -------------------------------------------------------------------------------

#: The patch releases that were built and started, newest first. For others some module proxies lack
#: a module (for 1.32.13 and 1.18.20 one did).
KNOWN_GOOD: Final = {
    Minor(1, 37): (Version(1, 37, 0),),
    Minor(1, 36): (Version(1, 36, 4), Version(1, 36, 3)),
    Minor(1, 35): (Version(1, 35, 0),),
    Minor(1, 34): (Version(1, 34, 0),),
    Minor(1, 33): (Version(1, 33, 0),),
    Minor(1, 32): (Version(1, 32, 2),),
    Minor(1, 26): (Version(1, 26, 15),),
    Minor(1, 22): (Version(1, 22, 17),),
    Minor(1, 20): (Version(1, 20, 15),),
    Minor(1, 17): (Version(1, 17, 17),),
}
#: ``NewKubeletCommand`` takes a context from here on.
COMMAND_WITH_CONTEXT: Final = Minor(1, 34)
#: ``k8s.io/component-base/cli`` exists from here on.
CLI_RUN: Final = Minor(1, 23)
#: ``k8s.io/component-base/logs/json/register`` exists from here on; before, JSON was built in.
JSON_REGISTERED: Final = Minor(1, 23)
#: A dependency that was renamed: its old name no longer resolves.
_VBOM: Final = ("vbom.ml/util => github.com/fvbommel/util v0.0.0-20160121211510-db5cfe13f5cc",)
MOVED_MODULES: Final = {Minor(1, 17): _VBOM, Minor(1, 18): _VBOM, Minor(1, 19): _VBOM}
#: Up to this release a dependency uses names of Go's runtime (linkname) that today's linker
#: refuses.
UNCHECKED_LINKNAMES_UNTIL: Final = Minor(1, 20)


def runtime_flags(release: Minor, endpoint: str) -> list[str]:
    """The flags that name the container runtime at ``endpoint``, in releases without such a
    field."""
    flags = [
        f"{flag}={endpoint}" for name, flag in FLAG_BEFORE.items() if release < FIELD_SINCE[name]
    ]
    if release <= REMOTE_FLAG_UNTIL:
        flags.append("--container-runtime=remote")
    return flags
