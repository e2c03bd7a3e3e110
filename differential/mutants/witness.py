"""The catalogue as a witness of mutants: on the driver, and on the kubelet in the loop.

What belongs here: cases, what each reaches in an unchanged program, and the verdict of a case with
mutants on. What never does: which mutants are tried on which case (``hunt``).

The variables reach both programs through this process's environment, which drivers inherit and
kubelets are started with.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

import conformance.scenarios
import topologies
from conformance.catalogue import catalogue, find
from conformance.discovered import architecture_of
from conformance.judge import Case, judge
from conformance.kubelets.binary import version_of
from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.subject import (
    OF_REAL_NODES,
    NodeUnderTest,
    Subject,
    SubjectInfo,
    SubjectSetupError,
)
from conformance.subjects.exec import ExecSubject
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.process import Binary, Patience
from conformance.subjects.kubelet.sandbox import STATE_DIR
from conformance.verdict import Verdict
from differential.command import key_of
from reference.steps import KubeletConfig
from topologies import Machine

MUTANT: Final = "PINPROOF_MUTANT"
REACHED: Final = "PINPROOF_REACHED"
#: The file inside its sandbox in which a kubelet notes what it reached.
_NOTES: Final = f"{STATE_DIR}/pinproof-reached"
#: Seconds. A driver answers in milliseconds. A kubelet shows an effect within three seconds, and
#: that it has refused a pod of a cluster within ten.
_DRIVER_PATIENCE: Final = 10.0
_KUBELET_PATIENCE: Final = Patience(start=40.0, effect=12.0)


class CaseName(msgspec.Struct, frozen=True):
    """A case by the ids of its scenario and machine."""

    scenario: str
    machine: str

    def case(self) -> Case:
        scenario = find(self.scenario)
        assert scenario is not None, self.scenario
        return Case(scenario, topologies.machine(self.machine))

    def __str__(self) -> str:
        return f"{self.scenario}@{self.machine}"


class Passed(msgspec.Struct, frozen=True):
    """A case that the program passes with no mutant on: how long it took, in seconds, and the
    numbers of the mutants whose places it reached."""

    case: CaseName
    seconds: float
    reached: tuple[int, ...]


class Said(msgspec.Struct, frozen=True):
    """The verdict of a case, and the rule that was broken or why there is no verdict. ``seen``:
    the differences, in one line."""

    verdict: str
    reason: str
    seen: str = ""


#: What is on: numbers of planted mutants, or names of faults.
On: TypeAlias = Sequence[int] | Sequence[str]


class Witness(Protocol):
    """A program that holds mutants. ``wavers``: whether a busy host can make a case fail."""

    name: str
    wavers: bool

    def judge(self, case: CaseName, on: Sequence[int]) -> Said:
        """The verdict with these mutants on."""

    def reached(self, case: CaseName) -> tuple[Said, tuple[int, ...]]:
        """The verdict with none on, and the mutants whose places were reached."""

    def close(self) -> None:
        """Leave nothing running. May be called twice."""


class DriverWitness:
    """The driver at ``path``. One process serves all cases with the same mutants on."""

    name = "driver"
    wavers = False

    def __init__(self, path: Path) -> None:
        # A subject takes the digest of its program, which is many MB, each time it is opened.
        self._command = ["/usr/bin/env", str(path)]
        self._on: tuple[int | str, ...] = ()
        self._subject: ExecSubject | None = None

    def judge(self, case: CaseName, on: On) -> Said:
        with _variables(_on(on)):
            if self._subject is None or self._on != tuple(on):
                self.close()
                try:
                    self._subject, self._on = self._open(), tuple(on)
                except SubjectSetupError as error:
                    return Said(Verdict.UNKNOWN.value, str(error))
            return _verdict(case, self._subject)

    def reached(self, case: CaseName) -> tuple[Said, tuple[int, ...]]:
        with (
            tempfile.NamedTemporaryFile("r") as notes,
            _variables({REACHED: notes.name}),
            contextlib.closing(self._open()) as subject,
        ):
            return _verdict(case, subject), _numbers(notes.read())

    def close(self) -> None:
        """End the process. May be called twice."""
        if self._subject is not None:
            self._subject.close()
            self._subject = None

    def _open(self) -> ExecSubject:
        return ExecSubject("exec:mutant", self._command, patience=_DRIVER_PATIENCE)


class KubeletWitness:
    """The kubelet at ``path``."""

    name = "kubelet"
    wavers = True

    def __init__(self, path: Path) -> None:
        version, text = version_of(path)
        self._binary = Binary(path, version.release)
        self._info = SubjectInfo(
            name="kubelet:mutant",
            release=str(version.release),
            version=text,
            facts={"architecture": platform.machine()},
        )

    def judge(self, case: CaseName, on: On) -> Said:
        with _variables(_on(on)), contextlib.closing(self._open()) as subject:
            return _verdict(case, subject)

    def reached(self, case: CaseName) -> tuple[Said, tuple[int, ...]]:
        noted: list[str] = []
        with (
            _variables({REACHED: _NOTES}),
            contextlib.closing(_Noting(self._open(), noted)) as subject,
        ):
            return _verdict(case, subject), _numbers("".join(noted))

    def close(self) -> None:
        """Nothing is open between cases."""

    def _open(self) -> KubeletSubject:
        return KubeletSubject(self._info, self._binary, patience=_KUBELET_PATIENCE)


class _Noting:
    """A subject whose nodes hand over what their kubelets noted before they are closed."""

    def __init__(self, subject: KubeletSubject, noted: list[str]) -> None:
        self.info = subject.info
        self.capabilities = subject.capabilities
        self._subject = subject
        self._noted = noted

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> NodeUnderTest:
        node = self._subject.node(machine, config, machines=machines)
        close = node.close

        def noting() -> None:
            with contextlib.suppress(OSError):
                self._noted.append(node.sandbox.path(_NOTES).read_text())
            close()

        node.close = noting  # type: ignore[method-assign]
        return node

    def close(self) -> None:
        self._subject.close()


def _verdict(name: CaseName, subject: Subject) -> Said:
    release, built_for = subject.info.release, architecture_of(subject.info)
    oracle = partial(ModelOracle, release=release, architecture=built_for)
    result = judge(name.case(), subject, oracle=oracle, release=release).result
    return Said(result.verdict, result.reason, _seen(result))


def _seen(result: Result) -> str:
    differences = result.failure.differences if result.failure else []
    return "; ".join(f"{one.what}: expected {one.expected}, seen {one.seen}" for one in differences)


@contextlib.contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def _on(these: On) -> dict[str, str]:
    return {MUTANT: ",".join(map(str, these))}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(line) for line in text.split() if line.isdigit()}))


def cases(machines: Iterable[str]) -> list[CaseName]:
    """The catalogue on these machines; a scenario about one machine is on that one. Scenarios that
    only a real node can show are left out."""
    names = list(machines)
    return [
        CaseName(scenario.id, machine)
        for scenario in catalogue()
        if not scenario.capabilities & OF_REAL_NODES
        for machine in ([scenario.machine] if scenario.machine else names)
    ]


def catalogue_digest() -> str:
    """A digest of all scenarios and of how they are judged."""
    folder = Path(conformance.scenarios.__file__).parent
    return key_of(each.read_bytes() for each in sorted(folder.rglob("*.py")))


def scenario_digest(scenario_id: str) -> str:
    """A digest of one scenario and of how it is judged: of its module, and of the modules with
    parts of scenarios."""
    scenario = find(scenario_id)
    assert scenario is not None, scenario_id
    own = sys.modules[scenario.body.__module__].__file__
    assert own is not None, scenario_id
    return key_of([_parts(), Path(own).read_bytes()])


@functools.cache
def _parts() -> bytes:
    folder = Path(conformance.scenarios.__file__).parent
    entered = {sys.modules[one.body.__module__].__file__ for one in catalogue()}
    parts = [each for each in sorted(folder.rglob("*.py")) if str(each) not in entered]
    return b"\0".join(each.read_bytes() for each in parts)


def is_caught(said: Said) -> bool:
    return said.verdict == Verdict.FAIL.value
