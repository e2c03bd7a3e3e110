"""The hunt: what is searched, how a find is made, and what is kept."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.subject import SubjectUsageError
from hunting import telling
from hunting.campaign import (
    FILE,
    RANDOM,
    Campaign,
    Header,
    Shard,
    machines_named,
    merged,
    read,
    write_told,
)
from hunting.defects import defect_of
from hunting.finds import Collection, found
from hunting.moves import RESTART
from hunting.replaying import releases_with, replayed, spans
from hunting.scope import Task, configurations, regular, tasks, uneven
from hunting.shrinking import shrunk
from hunting.walk import Tally, search
from reference import CPUSet, Node
from reference.branching import BranchingNode
from reference.steps import Apply, Delete, KubeletConfig, Start, Stop
from tests.cli.running import python
from topologies import describe
from topologies import names as catalogued

_RESERVED: Final = KubeletConfig(reserved_system_cpus=CPUSet([0]))
_STRICT: Final = KubeletConfig(
    reserved_system_cpus=CPUSet([0]), policy_options={"strict-cpu-reservation": "true"}
)
_SMALL: Final = "1s-1n-2c-smt2"


def node(config: KubeletConfig = _RESERVED, machine: str = _SMALL) -> BranchingNode:
    """A node of 1.37 whose kubelet runs."""
    tree = describe(machine).tree
    made = BranchingNode(lambda _: tree, machine, config, release="1.37")
    made.do(Start())
    return made


# -- nodes that branch ---------------------------------------------------------------------------


def test_a_copy_goes_its_own_way() -> None:
    """Whatever the copy does, the node stays as it is, and the other way round."""
    first = node()
    first.do(Apply(guaranteed("a", 1)))
    before = first.view()
    twin = first.copy()
    for step in (Apply(guaranteed("b", 1)), Delete("a"), *RESTART):
        twin.do(step)
    assert first.view() == before
    first.do(Delete("a"))
    assert twin.view().pods.keys() == {"b"}


def test_what_a_search_sees_is_the_view() -> None:
    """The text of the state file, made late, is the one that a plain node writes at once."""
    one, tree = node(), describe(_SMALL).tree
    other = Node(lambda _: tree, _SMALL, _RESERVED, release="1.37")
    other.do(Start())
    for step in (Apply(guaranteed("a", 1)), Stop(), Start(), Delete("a")):
        one.do(step)
        other.do(step)
        assert one.view() == other.view()
        assert one.seen().assignments == other.view().assignments


def test_pods_of_one_kind_are_interchangeable() -> None:
    """Deleting the first of two equal pods, or the second and moving on, is told apart only where
    different CPUs are free."""
    one, other = node(), node()
    one.do(Apply(guaranteed("a", 1)))
    other.do(Apply(guaranteed("b", 1)))
    assert one.key() == other.key()
    one.do(Apply(guaranteed("c", 1)))
    assert one.key() != other.key()


# -- scope ---------------------------------------------------------------------------------------


def test_there_are_55_regular_machines_of_at_most_8_cpus() -> None:
    """Each is a machine, and no uneven one is among them."""
    machines = regular(8)
    assert len(set(machines)) == len(machines) == 55
    assert not set(machines) & set(uneven(8))
    assert all(describe(name).name == name for name in (*machines, *uneven(8)))


def test_machines_are_chosen_by_their_shapes() -> None:
    """Without a choice all of them; random walks take the catalogue's only then."""
    assert machines_named([], most=8, shapes="regular") == [*regular(8)]
    assert machines_named([], most=4, shapes="uneven") == [*uneven(4)]
    assert machines_named([], most=4) == [*regular(4), *uneven(4)]
    assert machines_named([], most=4, walk=RANDOM, shapes="regular") == [*regular(4)]
    assert set(catalogued()) <= set(machines_named([], most=4, walk=RANDOM))
    assert machines_named([_SMALL], most=8, shapes="uneven") == [_SMALL]


def test_every_release_takes_what_is_searched_on_it() -> None:
    """Options that exclude each other, or that a release has not, are left out."""
    for release in ("1.9", "1.17", "1.22", "1.26", "1.37"):
        for config in configurations(release, alpha=True):
            searched = Tally()
            list(search(Task(release, "1s-1n-4c-smt2", config), 1, tally=searched))
            assert searched.states, config


# -- finds ---------------------------------------------------------------------------------------


def test_issue_141196_is_found_shrunk_and_named() -> None:
    """The kubelet does not start again once exclusive CPUs have emptied the pool."""
    task = Task("1.37", "1s-1n-4c-smt1", _STRICT)
    broken = next(one for one in search(task, 3) if one.promise == "starts-again")
    small = shrunk(broken)
    assert small.task.machine == "1s-1n-1c-smt2"
    assert [type(step) for step in small.steps] == [Start, Apply, Stop, Start]
    defect = defect_of(small)
    assert defect is not None
    assert defect.number == 141196
    assert spans(releases_with(small)) == "1.33 to 1.37"


def test_devices_that_do_not_matter_are_left_out() -> None:
    """Under align-by-socket CPUs of three NUMA nodes are given where the hint had two, and no hint
    of three is preferred at the next start."""
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0, 4]),
        policy_options={"align-by-socket": "true"},
        feature_gates={"CPUManagerPolicyAlphaOptions": True},
        topology_manager_policy="restricted",
    )
    split = replace(exclusive("c", 7), devices=(("example.com/nic", 1),))
    pods = Apply(guaranteed("p1", 1)), Apply(guaranteed_of("p2", [split]))
    task = Task("1.37", "2s-4n-8c-smt2", config)
    broken = replayed(task, (Start(), *pods, *RESTART), "goes-on")
    assert broken is not None
    assert shrunk(broken).steps == (Start(), pods[0], Apply(guaranteed("p2", 7)), *RESTART)


def test_a_promise_that_is_kept_is_not_found() -> None:
    """Nothing without options on a regular machine, but the CPUs of init containers."""
    task = Task("1.37", "1s-1n-4c-smt1", _RESERVED)
    assert list(search(task, 2)) == []


def test_what_is_ignored_is_searched_beyond() -> None:
    """More states are met."""
    task, few, more = Task("1.37", _SMALL, _RESERVED), Tally(), Tally()
    assert {one.promise for one in search(task, 2, tally=few)} == {"booked-as-asked"}
    assert list(search(task, 2, tally=more, ignored=["booked-as-asked", "admitted"])) == []
    assert more.states > few.states


def test_finds_of_one_cause_are_one() -> None:
    """And are counted; without knowledge of defects as well."""
    for blind in (False, True):
        finds = Collection(blind=blind)
        for broken in search(Task("1.37", _SMALL, _RESERVED), 2):
            finds.add(broken)
        (find,) = finds
        assert find.met > 1
        assert find.issue == (0 if blind else 112228)


def test_a_find_is_told_four_ways(tmp_path: Path) -> None:
    """Its script replays it, its scenario is Python, its report has no word of this suite."""
    broken = next(iter(search(Task("1.37", _SMALL, _RESERVED), 1)))
    find = found(broken, 112228, releases=["1.36", "1.37"])
    assert find.task == broken.task
    assert find.history == broken.steps
    assert replayed(find.task, find.history, find.promise) is not None
    finds = Collection([find])
    write_told(finds, tmp_path)
    (own,) = tmp_path.iterdir()
    assert "Shared pool" in (own / "story.md").read_text()
    compile((own / "scenario.py").read_text(), "scenario", "exec")
    printed = python(str(own / "replay.py"), status=0)
    assert "exclusive CPUs of pod p1" in printed.stdout
    report = telling.report(find)
    assert "kind: Pod" in report
    machine = r"^Machine: 4 CPUs \(0-3\), 2 physical cores, 1 NUMA node, 1 socket\."
    assert re.search(machine, report, re.MULTILINE)
    assert "pinproof" not in report.replace("pinproof.invalid", "")


# -- campaigns -----------------------------------------------------------------------------------


def header(*machines: str, shards: int = 1) -> Header:
    """Of depth 1 on 1.37."""
    return Header(release="1.37", machines=list(machines), depth=1, shards=shards)


def test_shards_have_every_task_once() -> None:
    every = list(tasks("1.37", ("1s-1n-2c-smt1", _SMALL)))
    total = 0
    for number in (1, 2, 3):
        part = Campaign.__new__(Campaign)
        part.header, part.shard = header("1s-1n-2c-smt1", _SMALL, shards=3), Shard(number, 3)
        total += len(part._own_tasks())
    assert total == len(every)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_campaign_that_goes_on_counts_as_one_that_was_not_stopped(
    tmp_path: Path, jobs: int
) -> None:
    """How often each find was met, also in shards that are joined. What was searched is not
    searched again, and finds are kept; a line cut off is dropped."""
    whole = Campaign(header(_SMALL), Shard(), tmp_path / "whole")
    list(whole.run())
    met = {find.key: find.met for find in whole.finds}
    assert max(met.values()) > 1
    first = Campaign(header(_SMALL), Shard(), tmp_path / "parts")
    (find,) = first.run(jobs=jobs, stop=lambda: len(first.done) >= 5)
    assert find.issue == 112228
    assert not first.is_done
    with (tmp_path / "parts" / FILE).open("ab") as file:
        file.write(b'{"kind": "done", "ta')
    _, done, kept = read(tmp_path / "parts" / FILE)
    assert (len(done), len(kept)) == (len(first.done), 1)
    second = Campaign(header(_SMALL), Shard(), tmp_path / "parts")
    assert second.done == first.done
    list(second.run(jobs=jobs))
    assert second.tally.states == whole.tally.states > first.tally.states
    third = Campaign(header(_SMALL), Shard(), tmp_path / "parts")
    assert second.is_done
    assert third.is_done
    joined = merged([tmp_path / "parts"], tmp_path / "joined")
    again = read(tmp_path / "joined" / FILE)[2]
    for finds in (second.finds, third.finds, joined, again):
        assert {find.key: find.met for find in finds} == met


def test_a_whole_line_that_is_not_a_record_is_named(tmp_path: Path) -> None:
    """The last one, too: a campaign that went on would write behind it."""
    Campaign(header(_SMALL), Shard(), tmp_path)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"kind": "done", "ta\n')
    with pytest.raises(SubjectUsageError, match=rf"{FILE}, line 2: "):
        read(tmp_path / FILE)


def test_a_campaign_begins_where_its_first_line_found_no_room(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    Campaign(header(_SMALL), Shard(), tmp_path)
    assert read(tmp_path / FILE)[0] == header(_SMALL)


def test_merged_shards_are_one_campaign(tmp_path: Path) -> None:
    """The same finds as one campaign makes."""
    whole = Campaign(header(_SMALL, "1s-1n-3c-smt1"), Shard(), tmp_path / "whole")
    list(whole.run())
    folders = []
    for number in (1, 2):
        folders.append(tmp_path / str(number))
        part = Campaign(header(_SMALL, "1s-1n-3c-smt1", shards=2), Shard(number, 2), folders[-1])
        list(part.run())
    joined = merged(folders, tmp_path / "joined")
    assert {one.key for one in joined} == {one.key for one in whole.finds}
    with pytest.raises(SubjectUsageError, match="not shards of one campaign"):
        merged([tmp_path / "whole", folders[0]], tmp_path / "wrong")


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "-1/4", ""])
def test_a_shard_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(SubjectUsageError, match="--shard"):
        Shard.parse(text)


@pytest.mark.parametrize("text", [b"", b"{}\n", b'{"kind":"done","task":1,"steps":1,"states":1}\n'])
def test_a_file_that_is_no_campaign_is_refused(tmp_path: Path, text: bytes) -> None:
    """So is one of another version."""
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(SubjectUsageError):
        read(tmp_path / FILE)
    newer = b'{"kind":"header","schema":2,"release":"1.37","machines":[],"depth":1}\n'
    (tmp_path / FILE).write_bytes(newer)
    with pytest.raises(SubjectUsageError, match="another version"):
        read(tmp_path / FILE)
