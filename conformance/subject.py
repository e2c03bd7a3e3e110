"""A subject: a CPU manager that can be started on a machine, driven and observed.

A subject is named by a short string (``reference``, ``kubelet:1.36``). It makes *nodes*: one node
is one machine with one kubelet, driven by the steps of :mod:`reference.steps` and seen through
:class:`reference.view.View`. What a subject cannot do or cannot see is missing in its
``capabilities``. A scenario that needs it is skipped, and the reason names the missing ones.

The class of an exception says what is at fault:

    SubjectError                what a subject may raise
    +-- SubjectSetupError       no node could be made: binary, sandbox, machine (status 3)
    |   +-- SubjectUsageError   the user named something that cannot be (status 2)
    +-- SubjectUnable           this subject does not do that, or may not: the scenario is skipped
    +-- SubjectNotRestored      a node is not as it was before the run (status 5)
    +-- SubjectLostError        a step could not be carried out: the harness broke, or the host was
                                too busy to tell; the scenario's verdict is ``unknown``

A kubelet that refuses to start, hangs, or takes wrong CPUs raises no exception: the view shows it,
and the scenario judges it. A kubelet hangs if it had a processor and showed no effect until the
subject's deadline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from reference.cpuset import CPUSet
from reference.releases import Release, behaviours, newest_known
from reference.steps import KubeletConfig, Step
from reference.view import View
from topologies import Machine


class Capability(Enum):
    """What a subject can do with a node, or see of it."""

    PODS = "apply and delete pods"
    CPUSETS = "see the cpuset of every running container"
    REJECTIONS = "see why a pod was rejected"
    STATE_FILE = "see the state file"
    EDIT_STATE = "rewrite or remove the state file"
    RESTART = "stop, kill and start the kubelet"
    CONFIGURE = "change the kubelet's configuration"
    REBOOT = "boot the machine again with other CPUs"
    TAMPER = "change a container's cpuset behind the kubelet's back"
    START_ERROR = "see why the kubelet refuses to start"
    KERNEL = "see where the kernel runs a container's tasks"
    CONTAINERS = "kill a container behind the kubelet's back"
    EXIT_CODES = "have a container exit with a code of its own, and stay ended"
    CFS = "see the CFS quota of every running container"
    RENAMES = "see every version of the state file, let one fail, and kill the kubelet at one"
    CALLS = "see and refuse what the kubelet asks of its container runtime"
    METRICS = "ask the kubelet for its metrics"
    RUNTIME = "restart the container runtime"
    SERVICES = "let a service manager look after the kubelet"
    POD_CGROUP = "see the CFS quota of the cgroup of a pod itself"
    HOTPLUG = "take CPUs offline and bring them back"
    API_SERVER = "give the kubelet an API server"
    POD_RESOURCES = "ask the kubelet at its pod-resources socket"
    POD_RESOURCES_GET = "ask there for one pod, and for the allocatable CPUs"
    DEVICES = "give the node devices by a device plugin"
    MEMORY = "run the static memory manager on NUMA nodes with memory of any size"
    RESERVATION = "work out the cpu reservation as the container manager does"


#: Needs a node with its own kernel and service manager (``hil``).
OF_REAL_NODES: Final = frozenset({Capability.KERNEL, Capability.SERVICES, Capability.HOTPLUG})
#: Needs a whole kubelet and a container runtime; a CPU manager alone cannot do it (``exec``).
OF_WHOLE_KUBELETS: Final = frozenset(
    {
        Capability.CALLS,
        Capability.CFS,
        Capability.POD_CGROUP,
        Capability.RENAMES,
        Capability.METRICS,
        Capability.RUNTIME,
        Capability.API_SERVER,
        Capability.POD_RESOURCES,
        Capability.POD_RESOURCES_GET,
        Capability.DEVICES,
        Capability.MEMORY,
        Capability.RESERVATION,
    }
)
#: What no real node can do (``hil``). Programs in its pods sleep until they are killed. Calls
#: between kubelet and runtime are not seen. Its pods are not resized in place. Its pod-resources
#: socket is asked only for the list of pods. No device plugin is started on it. The memory of its
#: NUMA nodes cannot be changed.
NOT_OF_REAL_NODES: Final = frozenset(
    {
        Capability.EXIT_CODES,
        Capability.CALLS,
        Capability.METRICS,
        Capability.API_SERVER,
        Capability.POD_RESOURCES_GET,
        Capability.RENAMES,
        Capability.DEVICES,
        Capability.MEMORY,
    }
)


class WithEvidence(Exception):
    """An error with ``evidence`` (log excerpts); ``str()`` is one line for a person."""

    def __init__(self, message: str, *, evidence: str = "") -> None:
        super().__init__(message)
        self.evidence = evidence


class SubjectError(WithEvidence):
    """Something went wrong that is not a verdict about the subject."""


class SubjectSetupError(SubjectError):
    """No node could be made."""


class SubjectUsageError(SubjectSetupError):
    """The user named a subject that cannot exist: no such file, not a kubelet."""


@contextmanager
def usable(path: Path, error: type[SubjectError] = SubjectUsageError) -> Iterator[None]:
    """Inside, an ``OSError`` about ``path`` becomes ``error``, which names the path."""
    try:
        yield
    except OSError as why:
        raise error(f"{path}: {why.strerror}") from why


class SubjectUnable(SubjectError):
    """The subject cannot do what was asked, or is not allowed to; no part of the step was done.
    ``str()`` says what is missing, as the reason of a verdict ``skip``."""


class SubjectNotRestored(SubjectError):
    """Something outside of the run is not as it was before it; ``str()`` says what."""


class SubjectLostError(SubjectError):
    """A step could not be carried out, or nothing could be seen any more."""


@dataclass(frozen=True, slots=True)
class SubjectInfo:
    """A subject in reports. ``release`` is the minor (``"1.36"``) whose behaviour it is judged by,
    ``version`` the exact one (``"v1.36.3"``), ``digest`` the binary's sha256 (``"sha256:…"``;
    ``""`` without a binary), ``facts`` is anything else that identifies it."""

    name: str
    release: str
    version: str = ""
    digest: str = ""
    facts: dict[str, str] = field(default_factory=dict)


_NUMBER: Final = re.compile(r"v?(1\.[0-9]{1,3}(?:\.[0-9]{1,4})?)")


def stated_release(info: SubjectInfo) -> Release:
    """The release that a subject says it is, with its patch release if it names one. Raises
    ``ValueError`` for a text that is not a release."""
    found = _NUMBER.match(info.version)
    return Release.parse(found[1] if found else info.release)


def judging_release(info: SubjectInfo) -> Release:
    """The release whose behaviour a subject is judged by: its minor, or at most the newest known
    one. It is the patch release if that lacks behaviours of later ones, as 1.33.0 does. Raises
    ``ValueError`` for a text that is not a release."""
    own, said = newest_known(Release.parse(info.release)), stated_release(info)
    if said.minor != own.minor or not own.known:
        return own
    patch = replace(own, patch=said.patch)
    return patch if behaviours(patch) != behaviours(own) else own


@dataclass(frozen=True, slots=True)
class Origin:
    """What a view of a real node was made from. ``at`` is the time (ISO 8601, UTC, by the runner's
    clock); ``online`` are the online CPUs; ``state_file`` is the digest of the node's state file
    (``"sha256:…"``; ``""`` without one). ``containers``: by ``pod/container``, the container's id
    and the path of its cgroup."""

    at: str
    online: CPUSet
    state_file: str = ""
    containers: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class NodeUnderTest(Protocol):
    """One machine with one kubelet, down until the first ``Start``."""

    def do(self, step: Step) -> None:
        """Do the step. Returns when it is done, which may be before its effects show.

        Raises :class:`SubjectLostError` if the step could not be carried out.
        """

    def view(self) -> View:
        """What can be seen now."""

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Look until ``satisfied`` is true, or the subject's own deadline for the last step has
        passed; returns the last view in both cases."""

    def evidence(self) -> str:
        """Log lines that help to explain a failure; ``""`` if there are none."""

    def close(self) -> None:
        """Leave nothing behind: no process, mount, namespace or file. May be called twice."""


class Subject(Protocol):
    """A CPU manager under test."""

    info: SubjectInfo
    capabilities: frozenset[Capability]

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> NodeUnderTest:
        """A fresh node: this machine, this configuration, no state file, no pods, no kubelet.

        ``machines`` finds the machine that a :class:`reference.steps.Reboot` names.
        Raises :class:`SubjectSetupError`.
        """

    def close(self) -> None:
        """Close what is left open. May be called twice."""


# ---- optional: each is used where a subject has it ---------------------------------------------


@runtime_checkable
class HasOwnMachines(Protocol):
    """A subject with machines of its own: scenarios run only on these."""

    machines: tuple[Machine, ...]


@runtime_checkable
class HasOwnConfig(Protocol):
    """A subject whose kubelets may have to keep their configuration."""

    def own_config(self, machine: str) -> KubeletConfig | None:
        """The configuration of this machine's kubelet if it must stay, else ``None``."""


@runtime_checkable
class KeepsMemoryManager(Protocol):
    """A subject whose kubelets keep their memory manager, whatever a scenario configures."""

    def memory_manager_of(self, machine: str) -> KubeletConfig:
        """A configuration with this machine's memory manager; other fields do not count."""


def configured(subject: Subject, machine: str, config: KubeletConfig) -> KubeletConfig:
    """The configuration that a kubelet of the subject has if a scenario configures ``config``."""
    if isinstance(subject, KeepsMemoryManager):
        return config.with_memory_manager_of(subject.memory_manager_of(machine))
    return config


@runtime_checkable
class HasSalt(Protocol):
    """A subject whose kubelets remember the pods of earlier scenarios by their uids."""

    def salt(self) -> str:
        """A new text for each scenario; the uids of its pods are made with it."""


@runtime_checkable
class HasLargerMachines(Protocol):
    """A subject that can boot a node as a machine with more CPUs."""

    def larger(self, machine: str) -> Machine | None:
        """The machine with more CPUs that this one can be booted as; ``None`` if there is none."""


@runtime_checkable
class HasSmokeTest(Protocol):
    """A subject with its own smoke test."""

    def smoke(self) -> None:
        """Raises :class:`SubjectSetupError` if the subject cannot be judged. Changes nothing."""


@runtime_checkable
class CouldDoMore(Protocol):
    """A subject that could do more with programs that this host lacks, or with a permission."""

    lacking: Mapping[Capability, str]
    """By missing capability: what to install, or the option that permits it."""


@runtime_checkable
class CountsTrips(Protocol):
    """A subject that counts its round trips to nodes."""

    @property
    def trips(self) -> Mapping[str, tuple[int, int]]:
        """(Scenarios, round trips) by the name of the node."""


@runtime_checkable
class WaitsMost(Protocol):
    """A subject whose nodes mostly wait, so that one process may run several scenarios at a time,
    each in a thread and on a node of its own."""

    at_a_time: int

    def interrupt(self) -> None:
        """End every node: callers that use one soon get :class:`SubjectLostError`, and callers that
        make one get :class:`SubjectSetupError`. Does not wait; :meth:`Subject.close` does."""


@runtime_checkable
class Hurries(Protocol):
    """A subject whose nodes wait long for an effect that does not come."""

    def hurry(self, seconds: float | None) -> None:
        """Let nodes made from now on wait at most so long for the effect of a step, or after its
        last progress; ``None``: until their own deadline. A difference that is then seen may only
        be late."""


@runtime_checkable
class TakesOver(Protocol):
    """A subject whose kubelet can continue on a node that another subject of its kind has made."""

    def take_over(self, node: NodeUnderTest) -> None:
        """Start this subject's kubelet from the node's next start on; the node's kubelet is down.
        Machine, configuration, manifests, state file and containers stay. The subject that made the
        node still closes it.

        Raises :class:`SubjectUsageError` if the node is of another kind, and
        :class:`SubjectLostError` if its kubelet runs.
        """

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        """The texts of the files that the node's kubelet has kept for the next one, by their names
        in :data:`conformance.kept_files.FILES`."""


@runtime_checkable
class TakesFiles(Protocol):
    """A subject whose nodes take the files that another node's kubelet has kept."""

    def keep_files(self, node: NodeUnderTest, files: Mapping[str, str]) -> None:
        """Write these files, by their names in :data:`conformance.kept_files.FILES`, for the next
        kubelet."""


@runtime_checkable
class ShowsOrigin(Protocol):
    """A node of real hardware that says what each view was made from."""

    def origin(self) -> Origin:
        """The origin of the last view."""


@runtime_checkable
class NamesKilledRename(Protocol):
    """A node that says at which rename its kubelet was killed."""

    @property
    def killed_at_rename(self) -> str:
        """The file at whose rename a step had the last kubelet killed; ``""`` if there was none."""
