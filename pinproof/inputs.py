"""The question that ``simulate``, ``draw`` and ``upgrade`` share: its options, and its answer.

What belongs here: options, and the question that they make. What never does: what the answer is
(``simulation``), or how it is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

import topologies
from conformance.discovered import topology_named
from conformance.pods import guaranteed
from conformance.subject import SubjectUsageError
from pinproof.files import STDIN, documents, read
from pinproof.manifests import MOST_PODS, BadManifest, Found, pods_of
from pinproof.memory_settings import LEFT_OUT, shows_huge_pages, with_memory_where_modelled
from pinproof.node_archive import Collected, collected
from pinproof.parameters import option
from pinproof.settings import Given, Settings, settings_of
from pinproof.simulation import Answer, Devices, StateFile, answer, require_simulated
from reference import NEWEST, CPUTopology, NotModelled, Release
from reference.errors import QuantityError
from reference.pods.quantity import quantity
from reference.steps import Pod
from topologies import Machine
from topologies.errors import one_line

#: Bytes of a state file; that of a node with 8192 CPUs, each a container's own, is smaller.
MOST_STATE: Final = 8 << 20
_ACCEPTED: Final = (
    "it is CPU requests such as 4,2,1.5,1+1, a file of manifests, or - for manifests on stdin"
)


@dataclass(frozen=True, slots=True)
class Question:
    """Pods and a state file, as they were given; each field is an option of the command line."""

    panel: ClassVar = "Pods and state"

    pods: str | None = option(
        None,
        "CPU requests of Guaranteed pods, in order, where + joins containers (4,2,1.5,1+1); or a "
        "file of manifests, YAML or JSON, as kubectl get pods -o yaml prints them; or - for "
        "manifests on stdin.",
    )
    state: Path | None = option(None, "A node's cpu_manager_state, over which the kubelet starts.")
    oldest_first: bool = option(
        False,
        "Admit the pods in the order of startTime or creationTimestamp. Default: in the order in "
        "which they are given.",
        "--oldest-first",
    )


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is asked of a machine: settings, pods, a state file and a release. ``archive``: the
    whole node that all of it is from, if there is one (``whole_node``)."""

    given: Given
    question: Question
    release: str
    archive: Collected | None = None


def inputs_of(machine: str, given: Given, question: Question, release: str = "") -> Inputs:
    """What was given. What was not given is from ``machine``, if that is a file of ``pinproof
    capture --node``. Without either the release is the newest."""
    found = collected(machine)
    return Inputs(
        given if given.config is not None else replace(given, config=found.config),
        replace(
            question,
            pods=found.pods if question.pods is None else question.pods,
            state=question.state or found.state,
        ),
        release or found.release or NEWEST,
    )


def answered(machine: Machine, inputs: Inputs, devices: Devices | None = None) -> Answer:
    """What a kubelet of the release does with all that was given, on a node with these
    ``devices``. Raises as :func:`pinproof.simulation.answer`."""
    release, question = inputs.release, inputs.question
    require_simulated(release)
    plain = settings_of(inputs.given, discovered(machine, release), release=release)
    found = Found(())
    if question.pods is not None:
        found = pods_given(
            question.pods,
            oldest_first=question.oldest_first,
            resources=devices or (),
            huge_pages=shows_huge_pages(machine),
        )
    state = None if question.state is None else state_file(question.state)

    def by(settings: Settings) -> Answer:
        notes, config = [*settings.notes, *found.notes], settings.config
        return answer(
            machine, config, found.pods,
            state=state, release=release, notes=notes, devices=devices or {},
        )  # fmt: skip

    settings = with_memory_where_modelled(
        plain, inputs.given, release=release, has_state=state is not None
    )
    try:
        return by(settings)
    except NotModelled as why:
        if settings.config == plain.config:
            raise
        return by(replace(plain, notes=(*plain.notes, f"{LEFT_OUT}: {why}")))


def changed_inputs(
    machine: Machine, given: Given, to_machine: str | None, to_config: Path | None, release: str
) -> tuple[Machine | None, Settings | None]:
    """The other machine and the other settings of a node; ``None`` for what stays."""
    other = None if to_machine is None else topologies.machine(to_machine)
    if to_config is None:
        return other, None
    topology = discovered(other or machine, release)
    return other, settings_of(replace(given, config=to_config), topology, release=release)


def discovered(machine: Machine, release: str) -> CPUTopology:
    """The machine as a kubelet of ``release`` finds it; raises :class:`SubjectUsageError` for what
    is not a release, and where the kubelet would not start on it."""
    try:
        return topology_named(machine, release=Release.parse(release))
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error


def state_file(path: Path) -> StateFile:
    """A state file with its text, whatever bytes are in it."""
    text = read(path, MOST_STATE).decode("utf-8", "surrogateescape")
    return StateFile(one_line(str(path)), text)


def pods_given(
    text: str,
    *,
    oldest_first: bool = False,
    resources: Collection[str] = (),
    huge_pages: bool = False,
) -> Found:
    """The pods of ``--pods``, with their devices of these ``resources``, and with ``huge_pages``.
    Raises :class:`SubjectUsageError` with what is accepted, or with the file and the place at
    fault."""
    if _are_requests(text):
        return Found(tuple(_guaranteed(text)))
    if text != STDIN and not (text and (Path(text).exists() or Path(text).parent.parent.is_file())):
        raise SubjectUsageError(f"--pods {one_line(repr(text), 200)}: {_ACCEPTED}; no such file")
    try:
        return pods_of(
            documents(text),
            oldest_first=oldest_first,
            resources=resources,
            huge_pages=huge_pages,
        )
    except BadManifest as error:
        where = "stdin" if text == STDIN else one_line(text)
        raise SubjectUsageError(f"{where}: {error}") from error


def _are_requests(text: str) -> bool:
    """Whether every part is a quantity that begins with a digit or a dot."""
    parts = [one.strip() for one in text.replace("+", ",").split(",")]
    try:
        return all(quantity(one) is not None and one[0] in "0123456789." for one in parts)
    except QuantityError:
        return False


def _guaranteed(text: str) -> Iterator[Pod]:
    parts = text.split(",")
    if len(parts) > MOST_PODS:
        raise SubjectUsageError(f"--pods: more than {MOST_PODS} pods")
    for number, part in enumerate(parts, 1):
        yield guaranteed(f"pod{number}", *(one.strip() for one in part.split("+")))
