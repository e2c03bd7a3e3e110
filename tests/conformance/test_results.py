"""The result stream, written and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.results import Footer, Header, Result, ResultsError, encode, read
from conformance.stream import StreamWriter
from conformance.subject import SubjectInfo
from conformance.verdict import ExitStatus, Verdict, tally

INFO = SubjectInfo(name="kubelet:1.36", release="1.36", version="v1.36.3", digest="sha256:ab")


def _result(**changes: object) -> Result:
    from conformance.lockstep import machine_record
    from topologies import Machine, Tree

    facts: dict[str, object] = {
        "scenario": "qos/one",
        "title": "A fact",
        "area": "qos",
        "level": "core",
        "source": "a document",
        "source_url": "https://example.org/",
        "machine": machine_record(Machine("m", Tree({})), None),
        "verdict": "pass",
    }
    return Result(**{**facts, **changes})  # type: ignore[arg-type]


def _written(path: Path, *, footer: bool = True) -> Path:
    writer = StreamWriter(path, INFO, ["m"], {"python": "3"})
    writer.add(_result())
    if footer:
        writer.finish(tally([Verdict.PASS]), ExitStatus.CONFORMANT)
    else:
        writer.abandon()
    return path


def test_a_stream_is_read_as_written(tmp_path: Path) -> None:
    """Header, results, footer."""
    header, result, footer = read(_written(tmp_path / "result.jsonl"))
    assert isinstance(header, Header)
    assert header.subject.version == "v1.36.3"
    assert header.machines == ["m"]
    assert result == _result()
    assert isinstance(footer, Footer)
    assert footer.counts == {"pass": 1, "fail": 0, "skip": 0, "unknown": 0}
    assert footer.exit_status == 0


def test_a_stream_that_was_cut_off_says_so(tmp_path: Path) -> None:
    """What had been found is read first."""
    records = read(_written(tmp_path / "result.jsonl", footer=False))
    assert isinstance(next(records), Header)
    assert next(records) == _result()
    with pytest.raises(ResultsError, match=r"result\.jsonl: cut off: the footer is missing"):
        next(records)


def test_results_are_on_disk_at_once(tmp_path: Path) -> None:
    """A run that is killed keeps what it had found."""
    writer = StreamWriter(tmp_path / "r", INFO, [], {})
    writer.add(_result())
    assert len((tmp_path / "r").read_bytes().splitlines()) == 2
    writer.abandon()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "empty, no header"),
        (b"{}\n", ":1: not a record"),
        (b"nonsense\n", ":1: not a record"),
        (b"\xff\xfe\n", ":1: not a record"),
        (encode(_result()) + b"\n", ":1: the header is missing"),
    ],
)
def test_what_is_no_stream_is_named_with_its_line(tmp_path: Path, text: bytes, error: str) -> None:
    """One line, with the file's name."""
    path = tmp_path / "result.jsonl"
    path.write_bytes(text)
    with pytest.raises(ResultsError, match=error) as caught:
        list(read(path))
    assert "\n" not in str(caught.value)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """Its fields could mean something else."""
    path = _written(tmp_path / "result.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema":99', 1))
    with pytest.raises(ResultsError, match="schema 99 is newer"):
        list(read(path))


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """Not a traceback."""
    with pytest.raises(ResultsError, match="No such file"):
        list(read(tmp_path / "absent"))
