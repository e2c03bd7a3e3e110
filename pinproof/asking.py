"""What ``simulate`` and ``draw`` are asked with: the same options, once.

What belongs here: options, and the question that they make. What never does: the answer
(``whatif``), or how it is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from conformance.discovered import topology_named
from conformance.subject import SubjectUsageError
from pinproof.files import read
from pinproof.pods import pods_given
from pinproof.settings import Given, settings_of
from pinproof.whatif import Answer, StateFile, answer
from reference import CPUTopology, Release
from reference.behaviours import Behaviour
from reference.releases import has, require_whole_node
from topologies import Machine
from topologies.errors import one_line

#: The state file of a node with 8192 CPUs, each a container's, is smaller.
MOST_STATE: Final = 8 << 20

_KUBELET: Final = "Kubelet settings"
_INPUT: Final = "Pods and state"

Pods = Annotated[
    str | None,
    typer.Option(
        metavar="PODS",
        help="CPU requests of Guaranteed pods, in order, where + joins containers (4,2,1.5,1+1); "
        "or a file of manifests, YAML or JSON, as kubectl get pods -o yaml prints them; "
        "or - for manifests on stdin.",
        show_default=False,
        rich_help_panel=_INPUT,
    ),
]
OldestFirst = Annotated[
    bool,
    typer.Option(
        "--oldest-first",
        help="Take the pods by startTime or creationTimestamp. Default: as they come.",
        rich_help_panel=_INPUT,
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A node's cpu_manager_state, over which the kubelet starts.",
        show_default=False,
        rich_help_panel=_INPUT,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A KubeletConfiguration, as a node has it; the options below override it.",
        show_default=False,
        rich_help_panel=_KUBELET,
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        metavar="none|static",
        help="cpuManagerPolicy. Default: static.",
        show_default=False,
        rich_help_panel=_KUBELET,
    ),
]
PolicyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--policy-option",
        metavar="NAME=VALUE",
        help="cpuManagerPolicyOptions, as full-pcpus-only=true. May be repeated.",
        rich_help_panel=_KUBELET,
    ),
]
TopologyPolicy = Annotated[
    str | None,
    typer.Option(
        "--topology-manager-policy",
        metavar="POLICY",
        help="none, best-effort, restricted or single-numa-node.",
        show_default=False,
        rich_help_panel=_KUBELET,
    ),
]
TopologyScope = Annotated[
    str | None,
    typer.Option(
        "--topology-manager-scope",
        metavar="container|pod",
        help="topologyManagerScope.",
        show_default=False,
        rich_help_panel=_KUBELET,
    ),
]
TopologyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--topology-manager-policy-option",
        metavar="NAME=VALUE",
        help="topologyManagerPolicyOptions. May be repeated.",
        rich_help_panel=_KUBELET,
    ),
]
FeatureGates = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-gate",
        metavar="NAME=true|false",
        help="A feature gate. May be repeated.",
        rich_help_panel=_KUBELET,
    ),
]
Reserved = Annotated[
    str | None,
    typer.Option(
        metavar="CPUS",
        help="reservedSystemCPUs, as 0,4. Default: the first physical core, where nothing is "
        "reserved otherwise.",
        show_default=False,
        rich_help_panel=_KUBELET,
    ),
]
KubeReserved = Annotated[
    str | None,
    typer.Option(
        metavar="cpu=AMOUNT", help="kubeReserved.", show_default=False, rich_help_panel=_KUBELET
    ),
]
SystemReserved = Annotated[
    str | None,
    typer.Option(
        metavar="cpu=AMOUNT", help="systemReserved.", show_default=False, rich_help_panel=_KUBELET
    ),
]


def answered(
    machine: Machine,
    given: Given,
    pods: str | None,
    *,
    oldest_first: bool,
    state: Path | None,
    release: str,
) -> Answer:
    """What a kubelet of ``release`` does with all that was given. Raises as
    :func:`pinproof.whatif.answer`."""
    _require_simulated(release)
    settings = settings_of(given, discovered(machine, release), release=release)
    found = None if pods is None else pods_given(pods, oldest_first=oldest_first)
    return answer(
        machine,
        settings.config,
        found.pods if found else (),
        state=None if state is None else StateFile(one_line(str(state)), state_text(state)),
        release=release,
        notes=[*settings.notes, *(found.notes if found else ())],
    )


def discovered(machine: Machine, release: str) -> CPUTopology:
    """The machine as a kubelet of ``release`` finds it; raises :class:`SubjectUsageError` for what
    is no release, and where the kubelet would not start on it."""
    try:
        return topology_named(machine, release=Release.parse(release))
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error


def state_text(path: Path) -> str:
    """The text of a state file, whatever bytes are in it."""
    return read(path, MOST_STATE).decode("utf-8", "surrogateescape")


def _require_simulated(release: str) -> None:
    try:
        require_whole_node(release)
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    if not has(release, Behaviour.STATE_FILE):
        raise SubjectUsageError(
            f"release {release} has no state file and logs no CPUs; 1.9 chooses the same CPUs"
        )
