"""What a subject is: a CPU manager that can be started on a machine, driven and looked at.

A subject is named by a short string (``reference``, ``kubelet:1.36``). It makes *nodes*: one node
is one machine with one kubelet, driven by the steps of :mod:`reference.steps` and seen through
:class:`reference.view.View`. What a subject cannot do or cannot see is left out of its
``capabilities``; a scenario that needs it is skipped with the missing ones named.

The exception says who is at fault when something goes wrong:

    SubjectError                what a subject may raise
    +-- SubjectSetupError       no node could be made: binary, sandbox, machine (status 3)
    |   +-- SubjectUsageError   the user named something that cannot be (status 2)
    +-- SubjectUnable           this subject does not do that, or may not: the scenario is skipped
    +-- SubjectNotRestored      a node is not as it was before the run (status 5)
    +-- SubjectLostError        a step could not be carried out: the harness broke, or the host was
                                too busy to tell; the scenario's verdict is ``unknown``

A kubelet that refuses to start, hangs, or takes wrong CPUs raises nothing: that is what the view
shows, and judging it is the scenario's business. One hangs that was given a processor and did
nothing until the subject's deadline.
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
    RENAMES = "see every version of the state file, and kill the kubelet at one"
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


#: What takes a node with a kernel and a service manager of its own (``hil``).
OF_REAL_NODES: Final = frozenset({Capability.KERNEL, Capability.SERVICES, Capability.HOTPLUG})
#: What takes a whole kubelet beside a container runtime; a CPU manager alone has it not (``exec``).
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
#: What no real node can do (``hil``): what runs in its pods sleeps until it is killed, nothing
#: stands between kubelet and runtime, its pods are not resized in place, its pod-resources socket
#: is asked for the list of pods alone, no device plugin is started on it, and its NUMA nodes have
#: the memory that they have.
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
    """``str()`` is one line for a person, ``evidence`` (log excerpts) may be many."""

    def __init__(self, message: str, *, evidence: str = "") -> None:
        super().__init__(message)
        self.evidence = evidence


class SubjectError(WithEvidence):
    """Something that is not the subject's verdict went wrong."""


class SubjectSetupError(SubjectError):
    """No node could be made."""


class SubjectUsageError(SubjectSetupError):
    """The user asked for a subject that cannot be: no such file, not a kubelet."""


@contextmanager
def usable(path: Path, error: type[SubjectError] = SubjectUsageError) -> Iterator[None]:
    """Where the system refuses something done here with ``path``, raise ``error``, which names
    the path."""
    try:
        yield
    except OSError as why:
        raise error(f"{path}: {why.strerror}") from why


class SubjectUnable(SubjectError):
    """The subject cannot do what was asked, or was not allowed to: ``str()`` says what is missing,
    in words that a verdict ``skip`` shows. No step was taken half."""


class SubjectNotRestored(SubjectError):
    """Something outside of the run is not as it was before it; ``str()`` says what."""


class SubjectLostError(SubjectError):
    """A step could not be carried out, or nothing could be seen any more."""


@dataclass(frozen=True, slots=True)
class SubjectInfo:
    """What a report says of a subject. ``release`` is the minor (``"1.36"``) whose behaviour it
    is judged by, ``version`` the exact one (``"v1.36.3"``), ``digest`` the binary's sha256
    (``"sha256:…"``; ``""`` where there is no binary), ``facts`` whatever else identifies it."""

    name: str
    release: str
    version: str = ""
    digest: str = ""
    facts: dict[str, str] = field(default_factory=dict)


_NUMBER: Final = re.compile(r"v?(1\.[0-9]{1,3}(?:\.[0-9]{1,4})?)")


def stated_release(info: SubjectInfo) -> Release:
    """The release that a subject says it is, with its patch release where it names one. Raises
    ``ValueError`` for what is no release."""
    found = _NUMBER.match(info.version)
    return Release.parse(found[1] if found else info.release)


def judging_release(info: SubjectInfo) -> Release:
    """The release whose behaviour a subject is judged by: its minor, or the newest known one in
    place of a newer; its patch release where that lacks what later ones of the minor brought, as
    1.33.0 does. Raises ``ValueError`` for what is no release."""
    own, said = newest_known(Release.parse(info.release)), stated_release(info)
    if said.minor != own.minor or not own.known:
        return own
    patch = replace(own, patch=said.patch)
    return patch if behaviours(patch) != behaviours(own) else own


@dataclass(frozen=True, slots=True)
class Origin:
    """What a view of a real node was made from. ``at`` is when it was looked at (ISO 8601, UTC, by
    the clock of whoever looked); ``online`` are the CPUs that were; ``state_file`` is the digest of
    the state file as it lay there (``"sha256:…"``; ``""`` without one). ``containers``: by pod name
    and container, as ``pod/container``, the container's id and the path of its cgroup."""

    at: str
    online: CPUSet
    state_file: str = ""
    containers: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class NodeUnderTest(Protocol):
    """One machine with one kubelet, down until the first ``Start``."""

    def do(self, step: Step) -> None:
        """Carry the step out. Returns once it was done, which may be before its effects show.

        Raises :class:`SubjectLostError` where the step could not be carried out.
        """

    def view(self) -> View:
        """What can be seen now."""

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Look until ``satisfied`` or the subject's own deadline for the last step has passed;
        the last view either way. Never sleeps longer than it must."""

    def evidence(self) -> str:
        """Log lines a person would want beside a failure; ``""`` if there are none."""

    def close(self) -> None:
        """Leave nothing behind: no process, mount, namespace or file. May be called twice."""


class Subject(Protocol):
    """A CPU manager under test."""

    info: SubjectInfo
    capabilities: frozenset[Capability]

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> NodeUnderTest:
        """A fresh node: this machine, this configuration, no state file, no pods; down.

        ``machines`` finds the machine that a :class:`reference.steps.Reboot` names.
        Raises :class:`SubjectSetupError`.
        """

    def close(self) -> None:
        """Close what is left open. May be called twice."""


# ---- optional: each is used where a subject has it ---------------------------------------------


@runtime_checkable
class HasOwnMachines(Protocol):
    """A subject that is machines itself: scenarios run on these machines and on no others."""

    machines: tuple[Machine, ...]


@runtime_checkable
class HasOwnConfig(Protocol):
    """A subject whose kubelets may have to keep the configuration that they have."""

    def own_config(self, machine: str) -> KubeletConfig | None:
        """The configuration of this machine where it must stay as it is, else ``None``."""


@runtime_checkable
class KeepsMemoryManager(Protocol):
    """A subject whose kubelets keep the memory manager that they have, whatever a scenario
    configures."""

    def memory_manager_of(self, machine: str) -> KubeletConfig:
        """A configuration with the memory manager of this machine; the rest of it says nothing."""


def configured(subject: Subject, machine: str, config: KubeletConfig) -> KubeletConfig:
    """What the kubelet of a subject's machine has once a scenario has configured this."""
    if isinstance(subject, KeepsMemoryManager):
        return config.with_memory_manager_of(subject.memory_manager_of(machine))
    return config


@runtime_checkable
class HasSalt(Protocol):
    """A subject whose kubelets remember the pods of earlier scenarios by their uids."""

    def salt(self) -> str:
        """A text that is new for each scenario. The uids of its pods are made with it."""


@runtime_checkable
class HasLargerMachines(Protocol):
    """A subject that can boot a node as a machine with more CPUs."""

    def larger(self, machine: str) -> Machine | None:
        """The machine with more CPUs that this one can be booted as; ``None``: there is none."""


@runtime_checkable
class HasSmokeTest(Protocol):
    """A subject that says itself whether it is fit to be judged."""

    def smoke(self) -> None:
        """Change nothing. Raises :class:`SubjectSetupError` where it is not fit."""


@runtime_checkable
class CouldDoMore(Protocol):
    """A subject that could do more with programs that this host lacks, or with a permission."""

    lacking: Mapping[Capability, str]
    """By what it cannot do, what to install, or the option that permits it."""


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
        """Take every node away: whoever uses one gets :class:`SubjectLostError` soon, and whoever
        wants another :class:`SubjectSetupError`. Does not wait; :meth:`Subject.close` does."""


@runtime_checkable
class Hurries(Protocol):
    """A subject whose nodes wait long for what never comes."""

    def hurry(self, seconds: float | None) -> None:
        """Nodes made from now on wait at most so long for the effect of a step, as long as they are
        at work; ``None``: as long as they do by themselves. Whatever is seen to differ then may
        have come too late."""


@runtime_checkable
class TakesOver(Protocol):
    """A subject whose kubelet can go on on a node that another of its kind has made."""

    def take_over(self, node: NodeUnderTest) -> None:
        """The node's kubelet, which is down, is this subject's from its next start on. Machine,
        configuration, manifests, state file and containers stay; the node stays its maker's to
        close.

        Raises :class:`SubjectUsageError` where the node is of another kind, and
        :class:`SubjectLostError` while a kubelet runs.
        """

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        """The texts of the files that the node's kubelet keeps for the next one, by their names in
        :data:`conformance.kept_files.FILES`; those that are there."""


@runtime_checkable
class TakesFiles(Protocol):
    """A subject whose nodes can be given what the managers of another node's kubelet have kept."""

    def keep_files(self, node: NodeUnderTest, files: Mapping[str, str]) -> None:
        """Put these texts, by :data:`conformance.kept_files.FILES`, in place for the next kubelet
        to find."""


@runtime_checkable
class ShowsOrigin(Protocol):
    """A node whose views come from hardware, and which says what each was made from."""

    def origin(self) -> Origin:
        """Of the last view."""


@runtime_checkable
class NamesKilledRename(Protocol):
    """A node that says at which rename its kubelet was killed."""

    @property
    def killed_at_rename(self) -> str:
        """The file at whose rename the last kubelet was killed, as a step had asked; or ``""``."""
