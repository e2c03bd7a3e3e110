"""The kubelet of a lab node: the file that the user named, its release, and how it is started.

What belongs here: its configuration and unit in the form its release understands. What never does:
how these reach the node (:mod:`hil.lab.payload`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.kubelets import configuration as kubelet_config
from conformance.kubelets import releases
from conformance.kubelets.binary import digest_of, version_of
from conformance.kubelets.releases import Minor
from conformance.subject import SubjectSetupError
from hil.lab.errors import LabUsageError
from topologies.errors import one_line

BINARY: Final = "/usr/local/bin/kubelet"
CONFIG: Final = "/var/lib/kubelet/config.yaml"
MANIFESTS: Final = "/etc/kubernetes/manifests"
STATE: Final = "/var/lib/kubelet/cpu_manager_state"
UNIT: Final = "kubelet.service"
_ENDPOINT: Final = "unix:///run/containerd/containerd.sock"
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
    """A kubelet to put on nodes: ``version`` is what it says (``v1.36.4``), ``digest`` SHA-256."""

    path: Path
    version: str
    release: Minor
    digest: str


def kubelet(path: str | os.PathLike[str]) -> Kubelet:
    """The kubelet at ``path``; raises :class:`LabUsageError` for anything else."""
    place = Path(path).expanduser().absolute()
    shown = one_line(str(place))
    if not place.exists():
        raise LabUsageError(f"{shown}: no such file")
    if not place.is_file():
        raise LabUsageError(f"{shown} is not a file")
    if not os.access(place, os.X_OK):
        raise LabUsageError(f"{shown} is not executable: chmod +x")
    try:
        with place.open("rb") as stream:
            if stream.read(4) != _ELF:
                raise LabUsageError(f"{shown} is not a Linux program")
        version, text = version_of(place)
        digest = digest_of(place).removeprefix("sha256:")
    except OSError as error:
        raise LabUsageError(f"{shown}: {error.strerror}") from error
    except SubjectSetupError as error:
        raise LabUsageError(one_line(str(error))) from error
    if version.release < releases.OLDEST:
        raise LabUsageError(f"{shown}: {releases.OLDEST} is the oldest that the lab starts")
    return Kubelet(place, text, version.release, digest)


def configuration(release: Minor, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The node's KubeletConfiguration: the lab's own, with the user's ``settings`` over it (maps
    merged, anything else replaced; ``None`` takes an entry out), in the form of ``release``."""
    own = kubelet_config.basis(
        manifests=MANIFESTS,
        endpoint=_ENDPOINT,
        # The default is 10 s, which would be most of the waiting of a run.
        reconcile_period="1s",
    )
    own |= {
        "cgroupDriver": "systemd",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "evictionHard": {"memory.available": "50Mi"},
    }
    return kubelet_config.in_form_of(
        release, kubelet_config.merged(own, settings), asked=settings.keys()
    )


def unit_text(release: Minor, node_name: str) -> str:
    """The systemd unit that starts this release."""
    words = [BINARY, f"--config={CONFIG}", f"--hostname-override={node_name}"]
    words += releases.runtime_flags(release, _ENDPOINT)
    return _UNIT.format(command=" ".join(words))
