"""The kubelet of a lab node: the file that the user named, its release, and how it is started.

What belongs here: its configuration and unit in the form its release understands. What never does:
how these reach the node (:mod:`hil.lab.payload`).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.kubelets import configuration as kubelet_config
from conformance.kubelets import releases
from conformance.kubelets.releases import Minor
from hil.lab.errors import LabUsageError
from topologies.errors import one_line

BINARY: Final = "/usr/local/bin/kubelet"
CONFIG: Final = "/var/lib/kubelet/config.yaml"
MANIFESTS: Final = "/etc/kubernetes/manifests"
STATE: Final = "/var/lib/kubelet/cpu_manager_state"
UNIT: Final = "kubelet.service"
_ENDPOINT: Final = "unix:///run/containerd/containerd.sock"
_VERSION: Final = re.compile(r"Kubernetes v(\d{1,4})\.(\d{1,4})\.(\d{1,4})([0-9A-Za-z.+-]{0,80})")
_DEADLINE: Final = 30.0
_ELF: Final = b"\x7fELF"

#: GOGC: an emulated kubelet would spend a sixth of its start collecting the garbage of 20 MiB.
_UNIT: Final = """\
[Unit]
Description=kubelet: The Kubernetes Node Agent
After=containerd.service pinproof-workload.service
Wants=containerd.service
StartLimitIntervalSec=0

[Service]
ExecStart={command}
Environment=GOGC=400
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Kubelet:
    """A kubelet to put on nodes: ``version`` is its own word (``v1.36.4``), ``digest`` SHA-256."""

    path: Path
    version: str
    release: Minor
    digest: str


def kubelet(path: str | os.PathLike[str]) -> Kubelet:
    """Look at the kubelet at ``path``; raises :class:`LabUsageError` for what is none."""
    place = Path(path).expanduser().absolute()
    if not place.exists():
        raise LabUsageError(f"no kubelet: {_shown(place)}: there is no such file")
    if not place.is_file():
        raise LabUsageError(f"no kubelet: {_shown(place)} is not a file")
    if not os.access(place, os.X_OK):
        raise LabUsageError(f"no kubelet: {_shown(place)} is not executable: chmod +x")
    try:
        with place.open("rb") as stream:
            if stream.read(4) != _ELF:
                raise LabUsageError(f"no kubelet: {_shown(place)} is not a Linux program")
            stream.seek(0)
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise LabUsageError(f"no kubelet: {_shown(place)}: {error.strerror}") from error
    said = _version(place)
    found = _VERSION.match(said)
    if found is None:
        heard = one_line(said)[:80] or "nothing"
        raise LabUsageError(f"no kubelet: {_shown(place)} --version says {heard}")
    release = Minor(int(found[1]), int(found[2]))
    if release < releases.OLDEST:
        raise LabUsageError(f"{_shown(place)}: {releases.OLDEST} is the oldest that the lab starts")
    version = f"v{found[1]}.{found[2]}.{found[3]}{found[4]}"
    return Kubelet(place, version, release, digest)


def _version(place: Path) -> str:
    try:
        done = subprocess.run(
            [str(place), "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=_DEADLINE, check=False,
        )  # fmt: skip
    except OSError as error:
        raise LabUsageError(f"no kubelet: {_shown(place)}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise LabUsageError(
            f"no kubelet: {_shown(place)} --version took more than {_DEADLINE:g} s"
        ) from None
    return done.stdout[:4096].decode("utf-8", "replace")


def configuration(release: Minor, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The node's KubeletConfiguration: the lab's own, with the user's ``settings`` over it (maps
    merged, anything else replaced; ``None`` takes an entry out), in the form of ``release``."""
    made = kubelet_config.basis(
        manifests=MANIFESTS,
        endpoint=_ENDPOINT,
        # By default 10 s: nearly all that a run of the catalogue would wait for.
        reconcile_period="1s",
    )
    made |= {
        "cgroupDriver": "systemd",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "evictionHard": {"memory.available": "50Mi"},
    }
    return kubelet_config.in_form_of(
        release, kubelet_config.merged(made, settings), asked=settings.keys()
    )


def unit_text(release: Minor, node_name: str) -> str:
    """The systemd unit that starts this release."""
    words = [BINARY, f"--config={CONFIG}", f"--hostname-override={node_name}"]
    words += releases.runtime_flags(release, _ENDPOINT)
    return _UNIT.format(command=" ".join(words))


def _shown(place: Path) -> str:
    return one_line(str(place))
