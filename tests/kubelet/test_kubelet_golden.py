"""Recording again what a kubelet finds on the captured machines."""

from __future__ import annotations

from conformance.subjects.kubelet import KubeletSubject
from differential.record_golden import record_discovery, with_clock_speed
from topologies import Tree


def test_a_kubelet_finds_what_is_recorded(subject: KubeletSubject) -> None:
    outcome = record_discovery(subject, write=False)
    assert outcome.differences == []
    assert outcome.equal == 10


def test_a_clock_speed_is_added_where_there_is_none() -> None:
    bare = Tree({"proc/cpuinfo": "processor\t: 0\n"})
    assert "cpu MHz" in with_clock_speed(bare)["proc/cpuinfo"]
    tree = Tree({"proc/cpuinfo": "processor\t: 0\ncpu MHz\t\t: 2000.0\n"})
    assert with_clock_speed(tree) is tree
