"""The messages between tester and program: requests and answers, typed.

What belongs here: the messages of protocol version 1, with what each field means. What never does:
sending them (``channel``), and when each is sent (``node``). The JSON Schema beside this module is
made from it (``schema``).
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

PROTOCOL: Final = 1
#: The most bytes of a line of either side: the largest is a machine of a thousand CPUs.
LONGEST_LINE: Final = 16 << 20

Cpus: TypeAlias = Annotated[str, Meta(description='A cpuset as the kubelet writes it: "0-3,8".')]
NodeName: TypeAlias = Annotated[str, Meta(description="The tester's name for one node.")]
PodUID: TypeAlias = Annotated[str, Meta(description="metadata.uid of a pod.")]


class Coded(Struct):
    """A file that is no text."""

    base64: str


StateFile: TypeAlias = Annotated[
    str | Coded | None,
    Meta(description="The state file: its text, {base64} where it is none, null without a file."),
]


class ContainerState(Struct):
    """A container as the runtime has it."""

    pod_uid: PodUID
    name: str
    id: Annotated[str, Meta(description="The runtime's id, chosen by the tester.")]
    state: Annotated[str, Meta(description='"running" or "exited".')]


# --- requests --------------------------------------------------------------------------------


class Request(Struct, tag_field="op", omit_defaults=True, kw_only=True):
    """One line to the program. The answer has the same id; answers come in the order of the
    requests, of which several may be under way."""

    id: int = -1


class Hello(Request, tag="hello"):
    """The first request."""

    protocol: int


class Start(Request, tag="start", kw_only=True):
    """Start the kubelet of a node that is down, or of a new node. What is left out is as it was at
    the last start; a restart is `stop` and then `start` with nothing but the node."""

    node: NodeName
    machine: Annotated[
        msgspec.Raw | UnsetType,
        Meta(description="cAdvisor's MachineInfo (info/v1): num_cores, …, topology."),
    ] = UNSET
    config: Annotated[
        dict[str, Any] | UnsetType,
        Meta(
            description="Of KubeletConfiguration, under its names: cpuManagerPolicy, "
            "cpuManagerPolicyOptions, reservedSystemCPUs, systemReserved, kubeReserved, "
            "featureGates, topologyManagerPolicy, topologyManagerScope, "
            "topologyManagerPolicyOptions."
        ),
    ] = UNSET
    state_file: StateFile | UnsetType = UNSET
    containers: Annotated[
        list[ContainerState], Meta(description="What the runtime has from before.")
    ] = []


class Stop(Request, tag="stop"):
    """End the kubelet; what it wrote stays."""

    node: NodeName


class Admit(Request, tag="admit"):
    """Admit a pod: Topology Manager, then an allocation for each container. A pod that is admitted
    is active until `remove`."""

    node: NodeName
    pod: Annotated[msgspec.Raw, Meta(description="The manifest: a core/v1 Pod with a uid.")]


class Resize(Request, tag="resize"):
    """Admit an in-place resize: a pod that is admitted, with other requests. Refused, it stays as
    it was. What a kubelet refuses before it asks its managers is not asked for. (Capability
    `resize`.)"""

    node: NodeName
    pod: Annotated[msgspec.Raw, Meta(description="The manifest, with the uid of the pod.")]


class Create(Request, tag="create"):
    """A container of an admitted pod is created, and will start."""

    node: NodeName
    pod_uid: PodUID
    container: str
    container_id: str


class Remove(Request, tag="remove"):
    """The pod is no longer active, and its containers are gone. What it holds is given back when
    the CPU manager finds out, in the next round at the latest."""

    node: NodeName
    pod_uid: PodUID


class Reconcile(Request, tag="reconcile"):
    """Go through one reconcile round. With the first one all pod sources have been heard."""

    node: NodeName
    containers: Annotated[
        list[ContainerState], Meta(description="Everything the runtime has by now.")
    ]


class Hints(Request, tag="hints"):
    """What the CPU manager would suggest to the Topology Manager for a container, or without one
    for the whole pod. (Capability `hints`.)"""

    node: NodeName
    pod: Annotated[msgspec.Raw, Meta(description="The manifest.")]
    container: str = ""


class Take(Request, tag="take", kw_only=True):
    """Have the static policy allocate `count` CPUs, `rounds` times from the same state, without a
    file, and time each inside the program. Without `machine`, machine, config and reserved CPUs are
    those of the last `take` that named one; nothing that was allocated stays. (Capability
    `take`.)"""

    machine: msgspec.Raw | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET
    reserved: Cpus = ""
    busy: Cpus = ""
    count: int
    rounds: int


class Close(Request, tag="close"):
    """Forget a node and its files."""

    node: NodeName


class Shutdown(Request, tag="shutdown"):
    """Forget everything, answer, and end with status 0."""


# --- answers ---------------------------------------------------------------------------------


class Answer(Struct, kw_only=True):
    """One line of the program's. Fields that are not known are passed over."""

    id: int
    error: Annotated[
        str, Meta(description="The request was no use: unknown, or not now. Nothing changed.")
    ] = ""
    panic: Annotated[
        str, Meta(description="The CPU manager died of the request: the kubelet is down.")
    ] = ""
    state_file: Annotated[
        StateFile | UnsetType,
        Meta(description="Where the request changed it, or the tester cannot know it."),
    ] = UNSET


class HelloAnswer(Answer, kw_only=True):
    """Who is there."""

    protocol: int = 0
    name: str = ""
    release: Annotated[str, Meta(description='The Kubernetes minor it behaves as: "1.36".')] = ""
    version: Annotated[str, Meta(description='The exact version: "v1.36.4".')] = ""
    capabilities: Annotated[
        list[str], Meta(description="Requests that not every program knows: hints, resize, take.")
    ] = []
    facts: Annotated[dict[str, str], Meta(description="What else identifies it.")] = {}


class Refused(Struct):
    """Why a kubelet does not start."""

    stage: Annotated[
        str,
        Meta(
            description='"configuration": while it was being made; "start": when it started its '
            "CPU manager."
        ),
    ]
    message: Annotated[
        str, Meta(description="The state file's folder is called /var/lib/kubelet in it.")
    ]


class StartAnswer(Answer, kw_only=True):
    """Without `refused` the kubelet runs."""

    refused: Refused | None = None


class Hint(Struct):
    """A NUMA affinity; `null` is any."""

    numa: list[int] | None
    preferred: bool


class AdmitAnswer(Answer, kw_only=True):
    """Reason and message are those of the admission result, where the pod is refused."""

    admitted: bool | None = None
    reason: str = ""
    message: str = ""
    affinity: Annotated[
        dict[str, Hint],
        Meta(description="By container: what the Topology Manager chose, under a policy of its."),
    ] = {}


class CreateAnswer(Answer, kw_only=True):
    """The cpuset the container is created with; empty: none is asked for."""

    cpus: Cpus | None = None


class Update(Struct):
    """A running container was sent a cpuset."""

    pod_uid: PodUID
    container: str
    cpus: Cpus


class ReconcileAnswer(Answer, kw_only=True):
    """What the round sent to the runtime, in order."""

    updates: list[Update] | None = None


class HintsAnswer(Answer, kw_only=True):
    """By resource. No hints (`null`) are no preference, an empty list is no way to do it."""

    hints: dict[str, list[Hint] | None] | None = None


class TakeAnswer(Answer, kw_only=True):
    """What was taken in the last round, and how long each round took."""

    cpus: Cpus | None = None
    nanoseconds: list[int] = []


#: The answer of each request; any other has a plain :class:`Answer`.
ANSWERS: Final[dict[type[Request], type[Answer]]] = {
    Hello: HelloAnswer,
    Start: StartAnswer,
    Admit: AdmitAnswer,
    Resize: AdmitAnswer,
    Create: CreateAnswer,
    Reconcile: ReconcileAnswer,
    Hints: HintsAnswer,
    Take: TakeAnswer,
}

_encoder: Final = msgspec.json.Encoder()
_decoders: Final = {
    request: msgspec.json.Decoder(ANSWERS.get(request, Answer))
    for request in Request.__subclasses__()
}


def encode(request: Request) -> bytes:
    """The request's line."""
    return _encoder.encode(request) + b"\n"


def decode(request: Request, line: bytes) -> Answer:
    """The answer to ``request``; raises :class:`msgspec.DecodeError` for anything else."""
    return _decoders[type(request)].decode(line)


def coded(text: str | None) -> StateFile:
    """A state file for a message; it may have bytes that are not text (``surrogateescape``)."""
    if text is None or text.isascii():
        return text
    content = text.encode("utf-8", "surrogateescape")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Coded(base64.b64encode(content).decode())


def text_of(state: StateFile) -> str | None:
    """The state file in a message; raises :class:`ValueError` for invalid base64."""
    if isinstance(state, Coded):
        return base64.b64decode(state.base64, validate=True).decode("utf-8", "surrogateescape")
    return state
