"""What can go wrong in the model, by who is at fault.

What the model does not know is :class:`NotModelled`, what no node can do :class:`IllegalStep`, what
never ends in the kubelet :class:`KubeletHangs`, and what it refuses :class:`KubeletError`.
A text that is no quantity or no CPU list is a ``ValueError``: :class:`QuantityError`,
:class:`reference.cpuset.CPUSetParseError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

#: ``status.reason`` where the kubelet did not foresee the cause.
UNEXPECTED: Final = "UnexpectedAdmissionError"
#: The same where the Topology Manager refuses the pod, from 1.18 on.
UNALIGNED: Final = "TopologyAffinityError"


class ModelError(Exception):
    """Base of everything the model raises, but for CPU list syntax."""


class NotModelled(ModelError):
    """The question lies outside what the model knows; ``str()`` is one line that says where."""


class IllegalStep(ModelError):
    """The step cannot be taken in this state of the node, which is left untouched."""


class KubeletHangs(ModelError):
    """The step never ends in the kubelet, which holds the CPU manager's lock meanwhile."""


class KubeletPanics(ModelError):
    """The kubelet ends at once, whatever it was about to do; ``str()``: what Go's runtime says."""


class AllocationHangs(KubeletHangs):
    """The kubelet searches for ever for CPUs to hand out; the model says so and returns."""


class KubeletError(ModelError):
    """The kubelet refuses; ``str()`` is its text, to the letter.

    ``possible`` holds every text it may choose from where Go's random map order decides which of
    several faults it names; ``str()`` is then the first of them. ``state_file``: the text that the
    CPU manager had written before the kubelet gave up, ``None`` if it had written none.
    """

    def __init__(self, *possible: str) -> None:
        super().__init__(possible[0])
        self.possible: Final = possible
        self.state_file: str | None = None


class DiscoveryError(KubeletError):
    """No usable CPU topology (``topology.Discover``)."""


class AllocationError(KubeletError):
    """CPUs (``takeByTopology``) or something else could not be handed out; ``reason`` is the pod's
    ``status.reason``, and :data:`UNEXPECTED` where the kubelet has no name for it."""

    reason: ClassVar[str] = UNEXPECTED


class NotEnoughCPUs(AllocationError):
    """``requested`` CPUs were asked for and ``available`` are available."""

    def __init__(self, requested: int, available: int, *, with_numbers: bool = True) -> None:
        text = "not enough cpus available to satisfy request"
        super().__init__(
            f"{text}: requested={requested}, available={available}" if with_numbers else text
        )
        self.requested: Final = requested
        self.available: Final = available


class NothingFits(AllocationError):
    """The walk over the machine ended with CPUs still to be taken."""

    def __init__(self) -> None:
        super().__init__("failed to allocate cpus")


class SMTAlignmentError(AllocationError):
    """``requested`` CPUs are no whole cores of ``per_core`` CPUs (``free`` is ``None``), or more
    than the ``free`` CPUs of cores without a reserved CPU."""

    reason: ClassVar[str] = "SMTAlignmentError"

    def __init__(self, requested: int, per_core: int, *, free: int | None = None) -> None:
        super().__init__(
            f"SMT Alignment Error: requested {requested} cpus not multiple cpus per core = "
            f"{per_core}"
            if free is None
            else f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
            f"{free}, requested CPUs = {requested}, CPUs per core = {per_core}"
        )
        self.requested: Final = requested
        self.per_core: Final = per_core
        self.free: Final = free


class EmptyPodSharedPoolError(AllocationError):
    """A pod with pod-level resources leaves its shared containers no CPU."""

    reason: ClassVar[str] = "EmptyPodSharedPoolError"


class DeviceError(AllocationError):
    """Devices could not be handed out (``devicesToAllocate``)."""


class MemoryManagerError(AllocationError):
    """Memory could not be handed out (``memorymanager/policy_static.go``)."""

    def __init__(self, text: str) -> None:
        super().__init__(f"[memorymanager] {text}")


class ConfigurationError(KubeletError):
    """The settings, or the settings on this machine, are refused."""


class StartupError(KubeletError):
    """The container manager cannot set the node up (``setupNode``); the CPU manager has started."""


class InvalidConfiguration(ConfigurationError):
    """The settings alone are refused, before any manager is made; ``faults`` are all that is wrong.
    From 1.24 on (``wrapped``) the text says that this is a validation."""

    def __init__(self, faults: Sequence[str], *, wrapped: bool = True) -> None:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        super().__init__(
            f"failed to validate kubelet configuration, error: {text}, "
            "path: &TypeMeta{Kind:,APIVersion:,}"
            if wrapped
            else text
        )
        self.faults: Final = tuple(faults)


class TopologyAffinityError(KubeletError):
    """The Topology Manager refuses a pod; ``reason`` is its ``status.reason``."""

    def __init__(self, text: str, *, reason: str = UNALIGNED) -> None:
        super().__init__(text)
        self.reason: Final = reason


class CheckpointError(KubeletError):
    """The state file cannot be restored; the text is the inner one, without path and advice."""


class StateError(KubeletError):
    """The restored state fails the static policy's validation."""


class QuantityError(ValueError):
    """A text is no Kubernetes quantity. ``kubelet`` is the kubelet's own text for that, ``text``
    what is no quantity; ``str()`` is both."""

    def __init__(self, kubelet: str, text: str) -> None:
        super().__init__(f"{kubelet}: {text!r}")
        self.kubelet: Final = kubelet
        self.text: Final = text
