"""Every free set and every request on every small machine: the model against the Go code.

    python -m differential.exhaustive --release 1.36 [--cpus 8] [--packed 12] [--shard 1/4]

``differential.exactness`` draws cases; nothing is drawn here. On every regular machine of up to
``--cpus`` CPUs, under every set of policy options that the release takes, every set of CPUs is free
once and every number of CPUs is requested, up to one more than there are. ``--packed N`` does the
same on every machine of N CPUs, without options only. What the Go code takes, or its error, must be
what the model takes, or its error. Exit status: 0 no difference, 1 a difference.

A driver of the release is asked (``pinproof build driver``). Shards have different machines and
share nothing; any number of them may run at once.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from conformance.kubelets.settings import settings_of
from conformance.pods import guaranteed
from conformance.subject import SubjectLostError
from conformance.subjects.exec import drivers, wire
from conformance.subjects.exec.machineinfo import machine_line
from conformance.subjects.exec.program import Hangs, Program
from differential.command import parser_of
from differential.record_golden import Place, machine_info
from reference import AllocationError, AllocationHangs, CPUSet, KubeletError
from reference.cpumanager.policy_options import OPTIONS, StaticOptions
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_mem import State
from reference.feature_gates import stage_of
from reference.machine.machineinfo import MachineInfo
from reference.releases import Release
from reference.steps import KubeletConfig, Pod

_GATES: Final = (
    "CPUManagerPolicyOptions",
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
)
#: How many requests are sent together, and how many such lots are under way: meanwhile the model
#: works on the next.
_LOT: Final = 512
_AHEAD: Final = 3
_ERROR: Final = "take: "
_HANGS: Final = "it searches for ever"


class Shape(NamedTuple):
    """A regular machine: the number of sockets, of NUMA nodes in each socket, and so on. ``near``:
    the threads of a core have neighbouring numbers."""

    sockets: int
    nodes: int
    caches: int
    cores: int
    threads: int
    near: bool

    @property
    def cpus(self) -> int:
        return self.sockets * self.nodes * self.caches * self.cores * self.threads

    def __str__(self) -> str:
        """As ``2s-4n-8c-smt2``, by totals, with the suffixes of machines."""
        nodes = self.sockets * self.nodes
        cores = self.cpus // self.threads
        text = f"{self.sockets}s-{nodes}n-{cores}c-smt{self.threads}"
        text += f"-l3x{nodes * self.caches}" if self.caches > 1 else ""
        return f"{text}-near" if self.near else text


def shapes(cpus: int) -> Iterator[Shape]:
    """Every regular machine of exactly ``cpus`` CPUs. ``near`` makes no difference where a core has
    one thread, or where there is one core."""
    for sizes in itertools.product(range(1, cpus + 1), repeat=5):
        one = Shape._make((*sizes, False))
        if one.cpus != cpus:
            continue
        yield one
        if one.threads > 1 and one.threads < cpus:
            yield one._replace(near=True)


def machine(shape: Shape, release: str) -> MachineInfo:
    """The machine as cAdvisor reports it."""
    total, places = shape.cpus // shape.threads, dict[int, Place]()
    for cpu in range(shape.cpus):
        core = cpu // shape.threads if shape.near else cpu % total
        cache = core // shape.cores
        node = cache // shape.caches
        places[cpu] = (node, node // shape.nodes, core, cache)
    return replace(machine_info(places), release=Release.parse(release))


def gates(release: str) -> dict[str, bool]:
    """The feature gates of policy options that a release knows, all open."""
    return {name: True for name in _GATES if stage_of(name, release)}


def option_sets(release: str) -> Iterator[dict[str, str]]:
    """Every set of policy options that a release takes, the empty one first."""
    for count in range(len(OPTIONS) + 1):
        for names in itertools.combinations(OPTIONS, count):
            given = dict.fromkeys(names, "true")
            try:
                StaticOptions.parse(given, gates(release), release=release)
            except KubeletError:
                continue
            yield given


@lru_cache
def _taker(count: int) -> Pod:
    return guaranteed("taker", count)


@dataclass(frozen=True, slots=True)
class Question:
    """A request for CPUs; ``said``: what the model takes, or its error."""

    shape: Shape
    options: tuple[str, ...]
    free: CPUSet
    count: int
    said: str

    def __str__(self) -> str:
        options = ", ".join(self.options) or "no option"
        return f"{self.shape}, {options}: {self.count} of the free CPUs {self.free or '(none)'}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A question that the Go code answers otherwise."""

    question: Question
    go: str

    def __str__(self) -> str:
        return f"{self.question}: the model says {self.question.said}, Go says {self.go}"


class Asked:
    """One machine under one set of options."""

    def __init__(self, shape: Shape, options: dict[str, str], release: str) -> None:
        self._shape, self._options = shape, tuple(options)
        self._info = machine(shape, release)
        self._settings = settings_of(
            KubeletConfig(policy_options=options, feature_gates=gates(release))
        )
        self._policy = StaticPolicy(
            self._info.cpu_topology(),
            CPUSet(),
            release=release,
            options=StaticOptions.parse(options, gates(release), release=release),
        )

    def questions(self) -> Iterator[tuple[Question, wire.Take]]:
        """Each question with its request, which leaves machine and settings out."""
        every = CPUSet(range(self._shape.cpus))
        for mask in range(1 << self._shape.cpus):
            free = CPUSet.of_mask(mask)
            busy = str(every - free)
            for count in range(1, self._shape.cpus + 2):
                said = self._model_says(free, count)
                asked = Question(self._shape, self._options, free, count, said)
                yield asked, wire.Take(busy=busy, count=count, rounds=1)

    def placed(self, request: wire.Take) -> wire.Take:
        """The request with machine and settings, which the first one that is sent has."""
        return msgspec.structs.replace(
            request, machine=machine_line(self._info), config=self._settings
        )

    def _model_says(self, free: CPUSet, count: int) -> str:
        state, pod = State("static"), _taker(count)
        state.default = free
        try:
            self._policy.allocate(state, pod, pod.containers[0])
        except AllocationHangs:
            return _HANGS
        except AllocationError as error:
            return str(error)
        return str(state.get(pod.uid, pod.containers[0].name))


class Compared:
    """A driver that is compared with the model. ``asked``: how many questions it has answered;
    ``hanging``: how many are not asked, since the model says that the kubelet hangs."""

    def __init__(self, launch: Callable[[], Program]) -> None:
        self._program = launch()
        self.asked = self.hanging = 0

    def differences(self, asked: Asked) -> Iterator[Difference]:
        """All of them, in the order of the questions. Raises :class:`SubjectLostError` where the
        Go code does not answer."""
        under_way: deque[tuple[list[Question], list[wire.Request]]] = deque()
        answerable = self._answerable(asked)
        while lot := list(itertools.islice(answerable, _LOT)):
            pairs = ([one for one, _ in lot], [request for _, request in lot])
            self._program.send(pairs[1])
            under_way.append(pairs)
            if len(under_way) > _AHEAD:
                yield from self._received(*under_way.popleft())
        while under_way:
            yield from self._received(*under_way.popleft())

    def _answerable(self, asked: Asked) -> Iterator[tuple[Question, wire.Request]]:
        sent = False
        for question, request in asked.questions():
            if question.said == _HANGS:
                self.hanging += 1
            else:
                yield question, request if sent else asked.placed(request)
                sent = True

    def _received(
        self, questions: list[Question], requests: list[wire.Request]
    ) -> Iterator[Difference]:
        for question, answer in zip(questions, self._program.receive(requests), strict=True):
            self.asked += 1
            assert isinstance(answer, wire.TakeAnswer)
            said = answer.error.removeprefix(_ERROR) or answer.panic or answer.cpus or ""
            if said != question.said:
                yield Difference(question, said)

    def close(self) -> None:
        self._program.close()


def work(release: str, cpus: int, packed: int) -> list[tuple[Shape, dict[str, str]]]:
    """Every machine with every set of options, the smallest first."""
    every = [
        (shape, options)
        for size in range(1, cpus + 1)
        for shape in shapes(size)
        for options in option_sets(release)
    ]
    return every + [(shape, {}) for shape in (shapes(packed) if packed > cpus else ())]


def shard_of(text: str) -> tuple[int, int]:
    """``K/N``: the K-th of N shards. Raises ``ValueError``."""
    number, _, count = text.partition("/")
    shard, shards = int(number), int(count)
    if not 1 <= shard <= shards:
        raise ValueError(f"a shard is 1/N to N/N, not {text}")
    return shard, shards


def main(given: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--release", default="1.36", help="a minor whose driver is built")
    parser.add_argument(
        "--cpus", type=int, default=8, help="on every machine of at most this many CPUs"
    )
    parser.add_argument(
        "--packed", type=int, default=0, help="without options on every machine of this many CPUs"
    )
    parser.add_argument("--shard", type=shard_of, default=(1, 1), metavar="K/N")
    parser.add_argument("--most", type=int, default=10, help="end after this many differences")
    asked = parser.parse_args(given)
    shard, shards = asked.shard
    every = work(asked.release, asked.cpus, asked.packed)[shard - 1 :: shards]
    path = drivers.build(asked.release)
    with closing(Compared(lambda: Program("driver", [str(path)], patience=120.0))) as compared:
        try:
            return _compare(compared, every, asked.release, asked.most)
        except (Hangs, SubjectLostError) as error:
            sys.stderr.write(f"differential.exhaustive: {error}\n")
            return 3


def _compare(
    compared: Compared, every: Sequence[tuple[Shape, dict[str, str]]], release: str, most: int
) -> int:
    began, found = time.monotonic(), 0
    for number, (shape, options) in enumerate(every, 1):
        for one in compared.differences(Asked(shape, options, release)):
            found += 1
            print(f"DIFFERENCE {one}", flush=True)
            if found >= most:
                return 1
        if number == len(every) or number % 100 == 0:
            rate = compared.asked / (time.monotonic() - began)
            print(
                f"{release}: {number} of {len(every)} machines and sets of options, "
                f"{compared.asked} requests, {rate:.0f} a second, {compared.hanging} hang, "
                f"{found} differences",
                flush=True,
            )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
