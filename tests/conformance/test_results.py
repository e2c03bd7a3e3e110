"""The result stream, written and read, and the exit status that follows."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from conformance import lines
from conformance.results import (
    Difference,
    Failure,
    Footer,
    Header,
    MachineRecord,
    Result,
    ResultsError,
    read,
)
from conformance.stream import StreamWriter
from conformance.subject import SubjectInfo
from conformance.verdict import ExitStatus, Verdict, exit_status, tally
from tests.support import lacking

INFO = SubjectInfo(name="kubelet:1.36", release="1.36", version="v1.36.3", digest="sha256:ab")


def result_of(**changes: object) -> Result:
    """A pass, but for these changes."""
    facts: dict[str, object] = {
        "scenario": "qos/one",
        "title": "A fact",
        "area": "qos",
        "level": "core",
        "source": "a document",
        "source_url": "https://example.org/",
        "machine": MachineRecord(name="m", shape="", digest="", cpus={}),
        "verdict": "pass",
    }
    return Result(**{**facts, **changes})  # type: ignore[arg-type]


def _written(path: Path, *, footer: bool = True, **about: Any) -> Path:
    writer = StreamWriter(path, INFO, ["m"], {"python": "3"}, **about)
    writer.add(result_of())
    if footer:
        writer.finish(tally([Verdict.PASS]), ExitStatus.CONFORMANT)
    else:
        writer.abandon()
    return path


def test_a_stream_is_read_as_written(tmp_path: Path) -> None:
    """Its header says what was run."""
    about: dict[str, Any] = {
        "digests": {"m": "sha256:5a"},
        "configuration": {"level": "core"},
        "catalogue": "sha256:ca",
        "command": ["pinproof", "run"],
    }
    header, result, footer = read(_written(tmp_path / "result.jsonl", **about))
    assert isinstance(header, Header)
    assert {name: getattr(header, name) for name in about} == about
    assert (header.subject.version, header.machines) == ("v1.36.3", ["m"])
    assert result == result_of()
    assert isinstance(footer, Footer)
    assert footer.counts == {"pass": 1, "fail": 0, "skip": 0, "unknown": 0}
    assert footer.exit_status == 0


def test_a_stream_that_was_cut_off_says_so(tmp_path: Path) -> None:
    """What had been found is read first."""
    records = read(_written(tmp_path / "result.jsonl", footer=False))
    assert isinstance(next(records), Header)
    assert next(records) == result_of()
    with pytest.raises(ResultsError, match=r"result\.jsonl: cut off: the footer is missing"):
        next(records)


def test_results_are_on_disk_at_once(tmp_path: Path) -> None:
    """A run that is killed keeps what it had found."""
    writer = StreamWriter(tmp_path / "r", INFO, [], {})
    writer.add(result_of())
    kinds = [line.split(b'"')[3] for line in (tmp_path / "r").read_bytes().splitlines()]
    assert kinds == [b"header", b"scenario", b"machine", b"result"]
    writer.abandon()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "empty, no header"),
        (b"{}\n", ":1: not a record"),
        (b"nonsense\n", ":1: not a record"),
        (b"\xff\xfe\n", ":1: not a record"),
        (b'{"kind":"text","number":0,"text":"t"}\n', ":1: the header is missing"),
        # Whatever else such a header lacks.
        (b'{"kind":"header","schema":99}\n', ":1: schema 99 is newer"),
        (
            b'{"kind":"header","schema":1,"machines":7}\n',
            ":1: schema 1 is older than 2, which this pinproof reads",
        ),
    ],
)
def test_what_is_no_stream_is_named_with_its_line(tmp_path: Path, text: bytes, error: str) -> None:
    path = tmp_path / "result.jsonl"
    path.write_bytes(text)
    with pytest.raises(ResultsError, match=error) as caught:
        list(read(path))
    assert "\n" not in str(caught.value)


def _machine(name: str, cpus: int = 4) -> MachineRecord:
    places = {cpu: (0, 0, cpu, 0) for cpu in range(cpus)}
    return MachineRecord(name=name, shape=name, digest="sha256:" + "5a" * 32, cpus=places)


def _read_back(path: Path, *results: Result) -> list[Result]:
    writer = StreamWriter(path, INFO, [], {})
    for one in results:
        writer.add(one)
    writer.finish({}, ExitStatus.CONFORMANT)
    return [one for one in read(path) if isinstance(one, Result)]


def test_every_kind_of_result_is_read_as_written(tmp_path: Path) -> None:
    """A failure on a machine that the scenario changed; an unknown; errors that were promised."""
    first, second = _machine("a"), _machine("b", 8)
    difference = Difference(what="w", expected="1", seen="2", missing="1", unexpected="2")
    told = [
        result_of(
            verdict="fail",
            machine=first,
            reason="r",
            seconds=1.5,
            steps=["s"],
            failure=Failure(rule="r", differences=[difference], machine=second),
            explanation="e",
            replay="p",
            evidence="v",
            worker="gw1",
        ),
        result_of(
            verdict="unknown", machine=second, reason="no answer", witness="the model of 1.36"
        ),
        result_of(verdict="pass", machine=first, steps=["s"], replay="p", kubelet_errors=["no"]),
        result_of(
            verdict="pass", machine=second, seconds=0.25, kubelet_errors=["no"], worker="gw1"
        ),
        result_of(verdict="skip", machine=second, reason="needs SMT", unable=True),
        result_of(verdict="skip", machine=first, reason="needs SMT", scenario="qos/two"),
        result_of(verdict="splendid", machine=first),
    ]
    assert _read_back(tmp_path / "result.jsonl", *told) == told


def test_only_the_first_pass_of_a_scenario_has_its_steps(tmp_path: Path) -> None:
    """The others differ in CPU numbers."""
    path = tmp_path / "result.jsonl"
    machines = [_machine(str(number)) for number in range(3)]
    found = _read_back(
        path, *(result_of(machine=one, steps=["start"], replay="pinproof run") for one in machines)
    )
    assert [(one.machine, one.steps) for one in found] == list(
        zip(machines, [["start"], [], []], strict=True)
    )
    assert [one.replay for one in found] == ["pinproof run", "", ""]


def test_what_many_results_share_is_written_once(tmp_path: Path) -> None:
    """A result on a machine with 512 CPUs takes some thirty bytes."""
    path = tmp_path / "result.jsonl"
    large = _machine("large", 512)
    _read_back(path, *[result_of(machine=large, witness="the model of 1.36")] * 1001)
    lines = path.read_bytes().splitlines()
    kinds = [line.split(b'"', 4)[3] for line in lines if line.startswith(b"{")]
    assert kinds == [b"header", b"scenario", b"machine", b"text", b"result", b"footer"]
    assert all(len(line) < 40 for line in lines if line.startswith(b"["))


def test_machines_of_equal_name_and_other_cpus_stay_apart(tmp_path: Path) -> None:
    """Of a release that counts uncore caches otherwise, for one."""
    results = [result_of(machine=_machine("m", cpus)) for cpus in (4, 8, 4)]
    assert _read_back(tmp_path / "result.jsonl", *results) == results


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'["pass",0,1,0.0,[],null,null]', "it refers to machine 1, which is not there"),
        (b'["pass",0,-1,0.0,[],null,null]', "it refers to machine -1, which is not there"),
        (b'["skip",7,0,null,false,null]', "it refers to scenario 7, which is not there"),
        (b'["pass",0,0,0.0,[5],null,null]', "it refers to text 5, which is not there"),
        (b'{"kind":"text","number":3,"text":"t"}', "text 3 stands where text 0 belongs"),
        (b'["pass",0,0]', "not a record"),
        (b'["fail",0,0,0.0,[],null,null]', "not a record"),
        (b"[" * 10_000, "not a record"),
        (b'{"kind":"header","schema":2', "not a record"),
    ],
)
def test_a_line_that_refers_to_nothing_is_named(tmp_path: Path, line: bytes, error: str) -> None:
    path = _written(tmp_path / "result.jsonl", footer=False)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ResultsError, match=error) as caught:
        list(read(path))
    assert f"{path}:5: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gigantic_line_is_refused_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.results.LONGEST", 1000)
    path = _written(tmp_path / "result.jsonl", footer=False)
    with path.open("ab") as stream:
        stream.write(b'{"kind":"text","number":0,"text":"' + b"x" * 1000 + b'"}\n')
    with pytest.raises(ResultsError, match=r":5: longer than 1000 bytes"):
        list(read(path))


def test_the_published_schema_is_current() -> None:
    """`pinproof report --schema` prints it."""
    published = files("conformance") / "schemas" / f"result-stream-{lines.SCHEMA}.json"
    assert json.loads(published.read_text(encoding="utf-8")) == lines.schema()


def test_every_line_of_a_run_is_as_the_schema_says(tmp_path: Path) -> None:
    """By a validator that knows nothing of pinproof; and it refuses what is none."""
    jsonschema = lacking.module("jsonschema")
    validator = jsonschema.Draft202012Validator(lines.schema())
    validator.check_schema(lines.schema())
    path = tmp_path / "result.jsonl"
    failure = Failure(rule="r", differences=[Difference(what="w", expected="1", seen="2")])
    verdicts = ("pass", "pass", "skip", "unknown")
    _read_back(path, *(result_of(verdict=v) for v in verdicts), result_of(failure=failure))
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({line[0] if isinstance(line, list) else line["kind"] for line in told}) == 7
    for line in told:
        validator.validate(line)
    for wrong in (["pass", 0], ["fail", 0, 0, 0.0, [], None, None], {"kind": "text"}, "text"):
        assert not validator.is_valid(wrong)


# -- the exit status of a run ----------------------------------------------------------------------

PASS, FAIL, SKIP, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.SKIP, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("verdicts", "floor", "status"),
    [
        ([PASS], 1, ExitStatus.CONFORMANT),
        ([PASS, SKIP], 1, ExitStatus.CONFORMANT),
        ([PASS, FAIL], 1, ExitStatus.NOT_CONFORMANT),
        ([PASS, UNKNOWN], 1, ExitStatus.COULD_NOT_TELL),
        ([UNKNOWN, FAIL], 1, ExitStatus.NOT_CONFORMANT),
        ([], 1, ExitStatus.TOO_FEW),
        ([], 0, ExitStatus.TOO_FEW),
        ([SKIP, SKIP], 1, ExitStatus.TOO_FEW),
        ([PASS, SKIP], 2, ExitStatus.TOO_FEW),
        ([PASS, PASS], 2, ExitStatus.CONFORMANT),
    ],
)
def test_exit_status(verdicts: list[Verdict], floor: int, status: ExitStatus) -> None:
    """A broken promise first, then what could not be told, then too little."""
    assert exit_status(tally(verdicts), floor=floor) is status


def test_a_machine_on_which_nothing_applied_is_too_little() -> None:
    """Whatever passed elsewhere; what was broken elsewhere is broken all the same."""
    assert exit_status(tally([PASS, SKIP]), idle=["node7"]) is ExitStatus.TOO_FEW
    assert exit_status(tally([FAIL, SKIP]), idle=["node7"]) is ExitStatus.NOT_CONFORMANT


def test_tally_has_every_verdict() -> None:
    """Those that do not occur as well."""
    assert tally([PASS, PASS, SKIP]) == {PASS: 2, FAIL: 0, SKIP: 1, UNKNOWN: 0}
