"""What is odd in a tree. Which real machines are odd: ``test_machine_finding``."""

from __future__ import annotations

import pytest

from topologies import Link, Tree, describe, lint
from topologies.paths import CPU, NODE

TIDY = dict(describe("2s-2n-4c-smt2-off7").tree)
CPU0 = f"{CPU}/cpu0/topology"
L3 = f"{CPU}/cpu0/cache/index3"


@pytest.mark.parametrize(
    ("path", "text", "finding"),
    [
        (f"{CPU}/online", "", "cpu/online: missing, empty, or not a CPU list"),
        (f"{CPU}/online", "0-8\n", "cpu/online: 8 not present"),
        (f"{CPU}/online", "0-8\n", "cpu/online: 8 not possible"),
        (f"{CPU}/offline", "3,7\n", "cpu/online: 3 also offline"),
        (f"{CPU0}/core_id", None, "core_id: missing for an online CPU"),
        (f"{CPU0}/core_id", "9\n", "thread_siblings: 0,4 differ in core_id"),
        (
            f"{CPU0}/physical_package_id",
            "1\n",
            "core_siblings: 0-1,4-5 differ in physical_package_id",
        ),
        (f"{CPU0}/core_cpus", "01\n", "core_cpus: 0, but its list says 0,4"),
        (f"{CPU0}/thread_siblings", "20\n", "thread_siblings: lacks CPU 0 itself"),
        (f"{CPU0}/thread_siblings", "81\n", "thread_siblings: holds 7, not online"),
        (
            f"{CPU0}/thread_siblings",
            "3\n",
            "thread_siblings: holds CPU 1, whose own set is another",
        ),
        (f"{L3}/shared_cpu_list", "1\n", "lacks CPU 0 itself"),
        (f"{L3}/shared_cpu_list", "0,7\n", "holds 7, not online"),
        (f"{L3}/shared_cpu_map", "01\n", "its map says 0"),
        (f"{L3}/id", "1\n", "level 3 Unified id 1 is also another cache's"),
        (f"{NODE}/node0/cpulist", "0-1\n", "cpulist: says 0-1, the links say 0-1,4-5"),
        (f"{NODE}/node0/cpulist", "1e999-7\n", "node0/cpulist: is not a list of numbers"),
        (f"{NODE}/node0/cpumap", "xyz\n", "node0/cpumap: is not a mask of numbers"),
        (f"{NODE}/node0/cpumap", "0\n", "cpumap: says none, the links say 0-1,4-5"),
        (f"{NODE}/node1/cpu0", Link("../../cpu/cpu0"), "node1: CPUs 0 are in another node too"),
        (f"{NODE}/node0/cpu4", Link("."), "node0/cpu4: leads to ., not to its CPU"),
        (f"{NODE}/node0/cpu4", None, "node: CPUs 4 are in no node"),
        (f"{NODE}/online", "0-2\n", "node/online: says 0-2, the folders say 0-1"),
        (f"{CPU}/present", "0-8\n", "cpu/present: 8 not possible"),
        (f"{CPU}/cpu7/online", "1\n", "cpu7/online: is 1, cpu/online says otherwise"),
        (f"{CPU}/cpu1/online", "0\n", "cpu1/online: is 0, cpu/online says otherwise"),
        (f"{CPU0}/core_siblings", "01\n", "thread_siblings: holds 4, which core_siblings lacks"),
        (f"{NODE}/has_cpu", "0\n", "node/has_cpu: says 0, the links say 0-1"),
        (f"{NODE}/node1/distance", "10 21 21\n", "has 3 distances, there are 2 nodes"),
        (f"{NODE}/node1/distance", "10 21\n", "another node is nearer than the node itself"),
        ("proc/cpuinfo", "processor\t: 0\n", "proc/cpuinfo: lists 0, online are 0-6"),
    ],
)
def test_every_rule_finds_its_fault(path: str, text: str | None, finding: str) -> None:
    assert lint(Tree(TIDY)) == []
    entries = {**TIDY, path: text}
    tree = Tree({name: value for name, value in entries.items() if value is not None})
    assert finding in "\n".join(map(str, lint(tree)))


def test_a_core_in_two_nodes_is_found_and_nothing_in_an_empty_tree() -> None:
    """But that its list of online CPUs is missing."""
    entries = {**TIDY, f"{NODE}/node1/cpu4": Link("../../cpu/cpu4")}
    del entries[f"{NODE}/node0/cpu4"]
    said = [str(finding) for finding in lint(Tree(entries))]
    assert f"{CPU0}/thread_siblings: 0,4 are one core in several NUMA nodes" in said
    assert [finding.path for finding in lint(Tree({}))] == [f"{CPU}/online"]
