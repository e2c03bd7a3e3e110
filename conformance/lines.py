"""The lines of a result stream, schema 2: what occurs often is written once, with a number.

A machine, a scenario and a text that many results share (why they were skipped, what judged them)
get a line before the first result that refers to them by number. Numbers of each kind count from 0.
There are three kinds of results. ``result`` is an object with the whole story: of a result that
failed or has no verdict, of each on a real node, and of the first pass of each scenario. All others
are the arrays ``["pass", …]`` and ``["skip", …]``, without steps and replay command: those of a
pass on another machine differ only in CPU numbers.

``conformance/schemas/result-stream-2.json`` is the JSON Schema of a line, made by :func:`schema`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec

from conformance.json_schema import schema_components
from conformance.records import (
    Failure,
    Footer,
    Header,
    MachineRecord,
    Observations,
    Record,
    Result,
)
from conformance.verdict import Verdict

#: The number of the schema. It rises if an older reader would misread a stream. A field that older
#: readers may ignore does not raise it.
SCHEMA: Final = 2
T = TypeVar("T")


class MachineLine(MachineRecord, tag="machine", tag_field="kind", kw_only=True, frozen=True):
    """A machine; results refer to it by ``number``."""

    number: int


class ScenarioLine(msgspec.Struct, tag="scenario", tag_field="kind", kw_only=True, frozen=True):
    """A scenario; results refer to it by ``number``."""

    number: int
    id: str
    title: str
    area: str
    level: str
    source: str
    source_url: str
    file: str = ""


class TextLine(msgspec.Struct, tag="text", tag_field="kind", kw_only=True, frozen=True):
    """A text; results refer to it by ``number``."""

    number: int
    text: str


class FailureLine(Failure, kw_only=True, frozen=True, omit_defaults=True):
    """:class:`conformance.records.Failure` with the number of its machine."""

    machine: int | None = None  # type: ignore[assignment]


class ResultLine(
    msgspec.Struct, tag="result", tag_field="kind", kw_only=True, frozen=True, omit_defaults=True
):
    """:class:`conformance.records.Result` with the numbers of its scenario, machine and witness."""

    scenario: int
    machine: int
    verdict: str
    reason: str = ""
    seconds: float = 0.0
    steps: list[str] = []
    failure: FailureLine | None = None
    explanation: str = ""
    replay: str = ""
    evidence: str = ""
    kubelet_errors: list[str] = []
    witness: int | None = None
    worker: int | None = None
    unable: bool = False
    observed: Observations | None = None


class PassLine(msgspec.Struct, tag="pass", array_like=True, frozen=True):
    """A promise that was kept. The order is: "pass", the numbers of scenario and machine, seconds,
    and the numbers of the texts of each error of a kubelet, of witness and worker."""

    scenario: int
    machine: int
    seconds: float
    kubelet_errors: list[int]
    witness: int | None
    worker: int | None


class SkipLine(msgspec.Struct, tag="skip", array_like=True, frozen=True):
    """A scenario that does not apply. The order is: "skip", the numbers of scenario and machine,
    that of the reason's text, whether the subject is what lacks something, and that of the worker's
    text."""

    scenario: int
    machine: int
    reason: int | None
    unable: bool
    worker: int | None


_Table: TypeAlias = MachineLine | ScenarioLine | TextLine
_Object: TypeAlias = Header | Footer | _Table | ResultLine
_Array: TypeAlias = PassLine | SkipLine
Line: TypeAlias = _Object | _Array

#: Fields of a result that are unchanged in its own line, and those in its scenario's line.
_IN_RESULT_LINE: Final = (
    *("verdict", "reason", "seconds", "steps", "explanation", "replay", "evidence"),
    *("kubelet_errors", "unable", "observed"),
)
_IN_SCENARIO_LINE: Final = ("title", "area", "level", "source", "source_url", "file")

_ENCODER: Final = msgspec.json.Encoder()
_OBJECTS: Final = msgspec.json.Decoder(_Object)
_ARRAYS: Final = msgspec.json.Decoder(_Array)


class Writer:
    """Turns the records of one stream into its lines, in order."""

    def __init__(self) -> None:
        self._scenarios: dict[tuple[str, ...], int] = {}
        self._machines: list[MachineRecord] = []
        self._texts: dict[str, int] = {}
        self._passed: set[str] = set()
        self._new: list[Line] = []

    def lines(self, record: Record) -> list[bytes]:
        """The lines that this record adds, without newlines: at least one."""
        line = self._line_of(record) if isinstance(record, Result) else record
        new, self._new = self._new, []
        return [_ENCODER.encode(one) for one in (*new, line)]

    def _line_of(self, result: Result) -> Line:
        scenario, machine = self._scenario(result), self._machine(result.machine)
        worker = self._text(result.worker)
        if result.verdict == Verdict.SKIP.value:
            return SkipLine(scenario, machine, self._text(result.reason), result.unable, worker)
        witness = self._text(result.witness)
        whole = result.observed is not None or result.scenario not in self._passed
        if result.verdict == Verdict.PASS.value and not whole:
            seconds = round(result.seconds, 4)
            errors = [self._new_text(one) for one in result.kubelet_errors]
            return PassLine(scenario, machine, seconds, errors, witness, worker)
        if result.verdict == Verdict.PASS.value:
            self._passed.add(result.scenario)
        return ResultLine(
            scenario=scenario,
            machine=machine,
            failure=self._failure(result.failure),
            witness=witness,
            worker=worker,
            **_chosen(result, _IN_RESULT_LINE),
        )

    def _failure(self, failure: Failure | None) -> FailureLine | None:
        if failure is None:
            return None
        values = msgspec.structs.asdict(failure)
        machine = None if failure.machine is None else self._machine(failure.machine)
        return FailureLine(**{**values, "machine": machine})

    def _scenario(self, result: Result) -> int:
        described = _chosen(result, _IN_SCENARIO_LINE)
        key = (result.scenario, *described.values())
        if key not in self._scenarios:
            self._scenarios[key] = number = len(self._scenarios)
            self._new.append(ScenarioLine(number=number, id=result.scenario, **described))
        return self._scenarios[key]

    def _machine(self, machine: MachineRecord) -> int:
        for number, known in enumerate(self._machines):
            if known is machine or known == machine:
                return number
        self._machines.append(machine)
        number = len(self._machines) - 1
        self._new.append(MachineLine(number=number, **msgspec.structs.asdict(machine)))
        return number

    def _text(self, text: str) -> int | None:
        return self._new_text(text) if text else None

    def _new_text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = number = len(self._texts)
            self._new.append(TextLine(number=number, text=text))
        return self._texts[text]


class Reader:
    """Turns the lines of one stream into its records, in order."""

    def __init__(self) -> None:
        self._scenarios: list[ScenarioLine] = []
        self._machines: list[MachineRecord] = []
        self._texts: list[str] = []

    def record(self, line: bytes) -> Record | None:
        """The record of a line; ``None`` for a line that only later lines refer to. Results on one
        machine share its :class:`MachineRecord`.

        Raises ``ValueError`` with what is wrong (:class:`msgspec.DecodeError` and
        ``UnicodeDecodeError`` are subclasses).
        """
        parsed: Line = (_ARRAYS if line.startswith(b"[") else _OBJECTS).decode(line)
        match parsed:
            case Header() | Footer():
                return parsed
            case MachineLine():
                values = msgspec.structs.asdict(parsed)
                _append(self._machines, values.pop("number"), MachineRecord(**values), "machine")
            case ScenarioLine():
                _append(self._scenarios, parsed.number, parsed, "scenario")
            case TextLine():
                _append(self._texts, parsed.number, parsed.text, "text")
            case ResultLine():
                return self._whole(parsed)
            case PassLine() | SkipLine():
                return self._brief(parsed)
        return None

    def _whole(self, line: ResultLine) -> Result:
        failure = line.failure
        values = _chosen(line, _IN_RESULT_LINE)
        if failure is not None:
            machine = None if failure.machine is None else self._machine(failure.machine)
            values["failure"] = Failure(**{**msgspec.structs.asdict(failure), "machine": machine})
        return self._result(line, **values, witness=self._text(line.witness))

    def _brief(self, line: PassLine | SkipLine) -> Result:
        if isinstance(line, SkipLine):
            reason = self._text(line.reason)
            return self._result(line, verdict=Verdict.SKIP.value, reason=reason, unable=line.unable)
        return self._result(
            line,
            verdict=Verdict.PASS.value,
            seconds=line.seconds,
            kubelet_errors=[self._text(number) for number in line.kubelet_errors],
            witness=self._text(line.witness),
        )

    def _result(self, line: ResultLine | PassLine | SkipLine, **values: Any) -> Result:
        described = _at(self._scenarios, line.scenario, "scenario")
        return Result(
            scenario=described.id,
            machine=self._machine(line.machine),
            worker=self._text(line.worker),
            **_chosen(described, _IN_SCENARIO_LINE),
            **values,
        )

    def _machine(self, number: int) -> MachineRecord:
        return _at(self._machines, number, "machine")

    def _text(self, number: int | None) -> str:
        return "" if number is None else _at(self._texts, number, "text")


def _chosen(record: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    values = msgspec.structs.asdict(record)
    return {name: values[name] for name in names}


def _append(table: list[T], number: int, value: T, kind: str) -> None:
    if number != len(table):
        raise ValueError(f"{kind} {number} stands where {kind} {len(table)} belongs")
    table.append(value)


def _at(table: list[T], number: int, kind: str) -> T:
    if not 0 <= number < len(table):
        raise ValueError(f"it refers to {kind} {number}, which is not there")
    return table[number]


def schema() -> dict[str, Any]:
    """The JSON Schema of a line (draft 2020-12)."""
    kinds = (*get_args(_Object), *get_args(_Array))
    found, parts = schema_components(kinds)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pinproof:result-stream:{SCHEMA}",
        "title": f"A line of a result stream of pinproof, schema {SCHEMA}",
        "description": "A run as it was: header, tables and results, a JSON value a line, footer.",
        "anyOf": list(found),
        "$defs": parts,
    }
