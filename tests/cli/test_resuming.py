"""``run --resume`` and ``run --shard``: one run in several parts, and its one stream."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.results import Result, ResultsError, read
from tests.cli.conftest import Stream
from tests.cli.running import Done, here

RUN = ("run", "-k", "pool/ or restart/stop", "--machine", "1s-1n-4c-smt*")


def cases(found: list[Result]) -> dict[str, tuple[Any, ...]]:
    """What a run says of each case, but for how long it took."""
    return {
        f"{one.scenario}@{one.machine.name}": (one.verdict, one.reason, one.witness)
        for one in found
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The stream of a run that ended."""
    folder = tmp_path_factory.mktemp("whole")
    here(*RUN, "--report", str(folder), status=0)
    return (folder / "result.jsonl").read_bytes()


def shards(folder: Path, count: int, *words: str) -> list[Done]:
    """A run in so many parts, with reports in the folders ``s1``, ``s2`` and so on."""
    parts = [(f"s{number}", f"{number}/{count}") for number in range(1, count + 1)]
    return [here(*words, "--report", name, "--shard", shard, cwd=folder) for name, shard in parts]


def results_in(path: Path) -> int:
    """How many results there are, as far as it can be read."""
    count = 0
    try:
        for record in read(path):
            count += isinstance(record, Result)
    except ResultsError:
        pass
    return count


@pytest.mark.parametrize(
    ("kept", "processes"), [(0.0, ["0"]), (0.3, ["0", "2"]), (0.95, ["2"]), (1.0, ["0", "2"])]
)
def test_a_run_that_was_cut_off_goes_on(
    kept: float, processes: list[str], whole: bytes, results: Stream, tmp_path: Path
) -> None:
    """After any byte: half a header, half a line, all but the footer; and a whole one has nothing
    left to do. Twice, with another process count."""
    stream = tmp_path / "result.jsonl"
    stream.write_bytes(whole)
    expected = results(tmp_path)
    for workers in processes:
        part = stream.read_bytes()
        stream.write_bytes(part[: int(len(part) * kept)])
        before = results_in(stream)
        done = here(*RUN, "--report", str(tmp_path), "--resume", "-n", workers, status=0)
        assert "Conformant: " in done.stdout
        assert (f"{before} cases have a verdict already" in done.stdout) is bool(before)
        header, found, footer = results(tmp_path)
        assert cases(found) == cases(expected[1])
        assert len(found) == len(expected[1])
        assert footer.counts == expected[2].counts
        names = {"result.jsonl", "junit.xml", "report.html"}
        assert {one.name for one in tmp_path.iterdir()} == names
        if before:
            assert header.started == expected[0].started
            assert header.resumed
            assert header.digests == expected[0].digests


def test_what_was_without_a_verdict_is_run_again(
    whole: bytes, results: Stream, tmp_path: Path
) -> None:
    """A whole stream may have such results: the network failed, and has come back."""
    stream = tmp_path / "result.jsonl"
    text = whole.decode().replace('"verdict":"pass"', '"verdict":"unknown"', 1)
    stream.write_text(text)
    _, found, _ = results(tmp_path)
    assert [one.verdict for one in found].count("unknown") == 1
    here(*RUN, "--report", str(tmp_path), "--resume", status=0)
    assert {one.verdict for one in results(tmp_path)[1]} == {"pass", "skip"}


def test_a_killed_run_goes_on_and_may_be_killed_again(results: Stream, tmp_path: Path) -> None:
    """With SIGKILL, wherever it is; what is in the stream by then is not run again."""
    words = ["run", "--machine", "2s-2n-16c-smt2", "-n", "0"]
    stream, seen = tmp_path / "result.jsonl", 0
    for more in (5, 12):
        command = [sys.executable, "-m", "pinproof", *words, "--report", str(tmp_path), "--resume"]
        with subprocess.Popen(command, stdout=-3, stderr=-3, start_new_session=True) as running:
            end = time.monotonic() + 120
            while time.monotonic() < end and results_in(stream) < seen + more:
                assert running.poll() is None
                time.sleep(0.01)
            os.killpg(running.pid, signal.SIGKILL)
        assert results_in(stream) >= seen + more
        seen = results_in(stream)
    done = here(*words, "--report", str(tmp_path), "--resume")
    assert f"{seen} cases have a verdict already" in done.stdout
    header, found, _ = results(tmp_path)
    fresh = tmp_path / "fresh"
    here(*words, "--report", str(fresh))
    assert cases(found) == cases(results(fresh)[1])
    assert len(header.resumed) == 2
    assert here("report", str(stream), "--gate").returncode == done.returncode == 0


#: Changes to a stream that make it another run's, and what is said of each.
CHANGED = {
    ('"pinproof":"', '"pinproof":"9'): "of another pinproof: 9",
    ('"catalogue":"sha256:', '"catalogue":"sha256:9'): "of another catalogue: sha256:9",
    ('"1s-1n-4c-smt1":"sha256:', '"1s-1n-4c-smt1":"sha256:9'): "of another machine: 1s-1n-4c",
    ('release":"1.36"},"dig', 'release":"1.35"},"dig'): "release to judge by: 1.35, now 1.36",
    ('"schema":2', '"schema":3'): "schema 3 is newer than 2",
    ('{"kind":"header"', '{"kind":"footer"'): "not a record",
}
#: Other options, and what is said of each.
OTHERS = {
    ("--subject", "miniature:forgets-to-give-back"): "another subject: reference 1.36, now",
    ("-k", "pool/"): "another configuration: keyword pool/ or restart/stop, now pool/",
    ("--release", "1.35"): "another subject: reference 1.36, now reference 1.35",
    ("--shard", "1/2"): "another shard: it differs",
}


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        *((one, (), says) for one, says in CHANGED.items()),
        *((("", ""), words, says) for words, says in OTHERS.items()),
    ],
)
def test_another_run_is_not_gone_on_with(
    change: tuple[str, str], words: tuple[str, ...], says: str, whole: bytes, tmp_path: Path
) -> None:
    stream = tmp_path / "result.jsonl"
    part = whole[: len(whole) // 2].decode().replace(*change, 1)
    stream.write_text(part)
    done = here(*RUN, *words, "--report", str(tmp_path), "--resume", status=2)
    (line,) = filter(None, done.stderr.splitlines())
    assert says in line
    assert not done.stdout
    assert stream.read_text() == part


def test_resuming_what_is_not_there_begins(tmp_path: Path) -> None:
    done = here(*RUN, "--report", str(tmp_path / "new"), "--resume", status=0)
    assert "result.jsonl is not there yet: the run begins" in done.stderr


def test_shards_join_into_the_whole(whole: bytes, results: Stream, tmp_path: Path) -> None:
    """Each case is in one of them, the same one whatever else is run; the joined stream is one that
    every command reads."""
    for number, done in enumerate(shards(tmp_path, 3, *RUN), start=1):
        assert f"This is a part of a run: shard {number} of 3." in done.stdout
    streams = [f"s{number}/result.jsonl" for number in (1, 2, 3)]
    join = ("report", *streams, "--format", "stream", "-o", "all/result.jsonl")
    (tmp_path / "all").mkdir()
    here(*join, cwd=tmp_path, status=0)
    (tmp_path / "result.jsonl").write_bytes(whole)
    expected, (header, found, _) = results(tmp_path), results(tmp_path / "all")
    assert cases(found) == cases(expected[1])
    assert str(header.shard) == "3 shards, whole"
    said = here("report", "all/result.jsonl", cwd=tmp_path).stdout
    assert "put together from 3 shards, whole" in said
    assert "Conformant: " in said
    lacking = here("report", *streams[1:], "--gate", cwd=tmp_path, status=3)
    assert "This is a part of a run: shards 2, 3 of 3." in lacking.stdout
    here("run", "-k", "pool/", "--shard", "2/3", "--report", "other", cwd=tmp_path, status=0)
    of_pool = {name for name in cases(results(tmp_path / "s2")[1]) if name.startswith("pool/")}
    assert of_pool <= {*cases(results(tmp_path / "other")[1])}


def test_a_shard_goes_on_too(results: Stream, tmp_path: Path) -> None:
    words = (*RUN, "--shard", "2/2", "--report", str(tmp_path), "-n", "0")
    here(*words)
    stream = tmp_path / "result.jsonl"
    expected = cases(results(tmp_path)[1])
    stream.write_bytes(stream.read_bytes()[:-200])
    here(*words, "--resume", status=0)
    assert cases(results(tmp_path)[1]) == expected


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_shard_without_a_case_is_a_stream_all_the_same(
    workers: str, results: Stream, tmp_path: Path
) -> None:
    """Else the others could not be known to be whole."""
    alone = ("-k", "pool/shrinks", "--machine", "1s-1n-4c-smt1", "-n", workers)
    assert [done.returncode for done in shards(tmp_path, 2, "run", *alone)] == [0, 0]
    for name in ("s1", "s2"):
        results(tmp_path / name)
    here("report", "s1/result.jsonl", "s2/result.jsonl", "--gate", cwd=tmp_path, status=0)


def test_shards_in_which_nothing_applies_are_green_and_the_joined_run_is_not(
    tmp_path: Path,
) -> None:
    """Nothing is wrong in any of them; that too little ran is seen where they are joined."""
    skipped = ("run", "-k", "packing/", "--machine", "1s-1n-2c-smt1", "--level", "core", "-n", "0")
    for number, done in enumerate(shards(tmp_path, 2, *skipped), start=1):
        assert done.returncode == 0
        words = f"Too few scenarios ran for a verdict in shard {number} of 2 alone: 0 promises kept"
        assert words in " ".join(done.stdout.split())
        assert "contradicts" not in done.stdout
        here("report", f"s{number}/result.jsonl", "--gate", cwd=tmp_path, status=3)
    here("report", "s1/result.jsonl", "s2/result.jsonl", "--gate", cwd=tmp_path, status=4)
    here(*skipped, "--report", "whole", cwd=tmp_path, status=4)


def test_a_shard_with_a_broken_promise_is_red(tmp_path: Path) -> None:
    broken = ("--subject", "miniature:forgets-to-give-back", "-k", "pool/deletion-returns-cpus")
    ran = shards(tmp_path, 2, "run", *broken, "--machine", "1s-1n-4c-smt2", "-n", "0")
    gates = [
        here("report", f"{name}/result.jsonl", "--gate", cwd=tmp_path) for name in ("s1", "s2")
    ]
    assert sorted(done.returncode for done in (*ran, *gates)) == [0, 1, 1, 3]


@pytest.mark.parametrize("wrong", [("--shard", "9/1"), ("--resume", "--release", "1.35")])
def test_a_run_that_is_refused_leaves_what_there_was(wrong: Sequence[str], tmp_path: Path) -> None:
    words = ("run", "-k", "machine/cpu-upgrade-incident", "--report", "o")
    here(*words, cwd=tmp_path, status=0)
    before = {one.name: one.read_bytes() for one in (tmp_path / "o").iterdir()}
    here(*words, *wrong, cwd=tmp_path, status=2)
    assert {one.name: one.read_bytes() for one in (tmp_path / "o").iterdir()} == before
    assert "report.html" in before
