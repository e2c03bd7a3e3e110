"""Several streams as one run: shards, and nodes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import reports
from conformance.results import ResultsError, Shard, SubjectRecord
from conformance.verdict import ExitStatus
from reports.merging import as_stream
from reports.nodes import groups
from reports.run import Run
from tests.reports.conftest import fakes, footer, headed, with_subject


def _load(tmp_path: Path, *runs: Run) -> Run:
    paths = [fakes.write(run, tmp_path / f"{number}.jsonl") for number, run in enumerate(runs)]
    return reports.load(*paths)


def _of(run: Run, name: str, release: str = "1.36") -> Run:
    subject = SubjectRecord(name=name, release=release, version="v1", digest="sha256:1")
    return headed(run, subject=subject)


def test_shards_are_one_run(tmp_path: Path) -> None:
    first = fakes.run(fakes.result(), fakes.result("fail", scenario="b"))
    second = fakes.run(fakes.result(scenario="c", machine=fakes.machine("other")))
    run = _load(tmp_path, first, second)
    assert run.verdict == "Not conformant: 2 promises kept, 1 broken."
    assert (run.status, run.caution) == (ExitStatus.NOT_CONFORMANT, "")
    assert run.machines == ("2s-2n-8c-smt2", "other")
    assert run.header.subject.name == "kubelet:1.36"


def test_a_shard_in_which_nothing_applied_is_no_fault(tmp_path: Path) -> None:
    idle = footer({"skip": 1}, 4, idle=["2s-2n-8c-smt2"])
    shard = fakes.run(fakes.result("skip", scenario="b"), footer=idle)
    assert _load(tmp_path, shard).status is ExitStatus.TOO_FEW
    run = _load(tmp_path, shard, fakes.run(fakes.result()))
    assert (run.status, run.idle) == (ExitStatus.CONFORMANT, ())


def _shard(run: Run, *parts: int, of: int = 3, **about: object) -> Run:
    return headed(run, shard=Shard(of=of, parts=list(parts)), **about)


def test_all_shards_are_a_whole_run_that_says_so(tmp_path: Path) -> None:
    runs = [fakes.run(fakes.result(scenario=name)) for name in "abc"]
    shards = [_shard(run, number) for number, run in enumerate(runs, 1)]
    assert _load(tmp_path, shards[1]).caution == "This is a part of a run: shard 2 of 3."
    assert _load(tmp_path, shards[1]).verdict.startswith("Conformant in shard 2 of 3: 1 ")
    two = _load(tmp_path, shards[2], shards[0])
    assert (two.status, two.part) == (ExitStatus.COULD_NOT_TELL, "shards 1, 3 of 3")
    assert two.caution == "This is a part of a run: shards 1, 3 of 3."
    run = _load(tmp_path, *reversed(shards))
    assert (run.status, run.part, run.caution) == (ExitStatus.CONFORMANT, "", "")
    assert str(run.header.shard) == "3 shards, whole"
    path = tmp_path / "whole.jsonl"
    path.write_text(as_stream(run))
    again = reports.load(path)
    assert (again.header, again.results, again.footer) == (run.header, run.results, run.footer)
    with pytest.raises(ResultsError, match="not a whole run: shards 1, 3 of 3"):
        as_stream(two)


def test_a_joined_stream_may_not_claim_what_one_shard_may(tmp_path: Path) -> None:
    """An empty shard says nothing against itself; an empty run contradicts itself."""
    green = fakes.ended(fakes.run(fakes.result("skip")), ExitStatus.CONFORMANT)
    assert _load(tmp_path, _shard(green, 2)).contradiction == ""
    assert _load(tmp_path, _shard(green, 1, 2, 3)).contradiction.startswith("its footer")
    assert _load(tmp_path, green).status is ExitStatus.COULD_NOT_TELL


def test_a_floor_is_for_all_shards_together(tmp_path: Path) -> None:
    def shard(number: int, floor: int) -> Run:
        run = fakes.run(fakes.result(scenario=str(number)))
        return _shard(run, number, of=2, configuration={"floor": str(floor)})

    assert _load(tmp_path, shard(1, 2), shard(2, 2)).status is ExitStatus.CONFORMANT
    assert _load(tmp_path, shard(1, 3), shard(2, 3)).status is ExitStatus.TOO_FEW


def test_shards_of_many_nodes_are_whole_where_each_node_is(tmp_path: Path) -> None:
    def node(name: str, part: int) -> Run:
        run = fakes.run(fakes.result(scenario=str(part), machine=fakes.machine(name)))
        return _shard(_of(run, f"node:{name}"), part, of=2)

    runs = [node("a", 1), node("a", 2), node("b", 1)]
    assert _load(tmp_path, *runs).part == "shard 1 of 2"
    whole = _load(tmp_path, *runs, node("b", 2))
    assert (whole.part, whole.status) == ("", ExitStatus.CONFORMANT)
    with pytest.raises(ResultsError, match="several nodes cannot have one result stream"):
        as_stream(whole)


def test_shards_of_other_runs_are_refused(tmp_path: Path) -> None:
    one = _shard(fakes.run(fakes.result()), 1)
    other = fakes.run(fakes.result(scenario="b"))
    with pytest.raises(ResultsError, match=r"of 4 shards, .*0\.jsonl is of 3 shards"):
        _load(tmp_path, one, _shard(other, 2, of=4))
    with pytest.raises(ResultsError, match=r"of no shards, .* is of 3 shards"):
        _load(tmp_path, one, other)
    with pytest.raises(ResultsError, match="of a run with other options"):
        _load(tmp_path, one, _shard(other, 2, configuration={"level": "core"}))


@pytest.mark.parametrize("status", [ExitStatus.NOT_RESTORED, ExitStatus.COULD_NOT_TELL])
def test_what_one_shard_says_of_itself_stays_said(status: ExitStatus, tmp_path: Path) -> None:
    """It shows in no result."""
    bad = fakes.ended(fakes.run(fakes.result()), status)
    assert _load(tmp_path, bad, fakes.run(fakes.result(scenario="b"))).status is status


def test_a_shard_that_was_cut_off_cuts_the_whole_off(tmp_path: Path) -> None:
    cut = fakes.run(fakes.result(), footer=None)
    run = _load(tmp_path, fakes.run(fakes.result(scenario="b")), cut)
    assert run.status is ExitStatus.COULD_NOT_TELL
    assert "0.jsonl" not in run.cut_off
    assert "1.jsonl: cut off" in run.cut_off


def test_nodes_are_one_run_that_keeps_what_tells_their_kubelets_apart(tmp_path: Path) -> None:
    """Those of equal machine and kubelet are one column of the report, the others are not."""
    runs = []
    for number, release in enumerate(("1.36", "1.36", "1.37")):
        result = fakes.result(machine=fakes.machine(f"node{number}"))
        run = _of(fakes.run(result), f"node:ssh://node{number}", release)
        runs.append(with_subject(run, facts={"runtime": "containerd"}))
    run = _load(tmp_path, *runs)
    subject = run.header.subject
    assert subject.name == "3 nodes: node:ssh://node0, node:ssh://node1, node:ssh://node2"
    assert subject.release == "1.36, 1.37"
    assert run.verdict == "Conformant: 3 promises kept."
    assert run.subjects["node2"].release == "1.37"
    columns = [[node.name for node in group.nodes] for group in groups(run)]
    assert columns == [["node2"], ["node0", "node1"]]


def test_what_does_not_belong_together_is_refused_in_one_line(tmp_path: Path) -> None:
    first, other = fakes.run(fakes.result()), fakes.run(fakes.result(scenario="b"))
    machine = msgspec.structs.replace(fakes.machine(), digest="sha256:other")
    for run, error in (
        (_of(other, "kubelet:1.37"), "of another subject than .*0.jsonl: kubelet:1.37"),
        (headed(other, catalogue="sha256:other"), "other pinproof version or scenarios"),
        (fakes.run(fakes.result(scenario="b", machine=machine)), "another machine has the name"),
        (first, "pinning.whole-cores on 2s-2n-8c-smt2 is in another stream as well"),
    ):
        with pytest.raises(ResultsError, match=error) as caught:
            _load(tmp_path, first, run)
        assert "\n" not in str(caught.value)
        assert "1.jsonl: " in str(caught.value)
