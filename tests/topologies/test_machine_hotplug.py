"""CPUs taken offline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from topologies import (
    BrokenMachine,
    Link,
    Machine,
    MachineError,
    Tree,
    describe,
    lint,
    load,
    offline,
    without_cpus,
)
from topologies.paths import CPU, NODE

CAPTURES = Path(__file__).parents[1] / "golden" / "captures"


def cpuinfo(tree: Tree) -> dict[int, dict[str, str]]:
    blocks = (
        dict(re.findall(r"^([\w ]+?)\s*: ?(.*)$", block, re.M))
        for block in tree["proc/cpuinfo"].split("\n\n")
    )
    return {int(block["processor"]): block for block in blocks if block}


def test_one_thread_goes() -> None:
    tree = without_cpus(describe("2s-2n-8c-smt2").tree, [11])
    assert tree[f"{CPU}/online"] == "0-10,12-15\n"
    assert tree[f"{CPU}/offline"] == "11\n"
    assert tree[f"{CPU}/present"] == tree[f"{CPU}/possible"] == "0-15\n"
    assert tree[f"{CPU}/cpu11/online"] == "0\n"
    assert tree[f"{CPU}/cpu3/topology/thread_siblings_list"] == "3\n"
    assert tree[f"{CPU}/cpu0/topology/package_cpus"] == "070f\n"
    assert tree[f"{CPU}/cpu3/cache/index2/shared_cpu_map"] == "0008\n"
    assert tree[f"{NODE}/node0/cpulist"] == "0-3,8-10\n"
    assert tree[f"{NODE}/node0/cpumap"] == "070f\n"
    assert cpuinfo(tree)[0]["siblings"] == "7"
    assert cpuinfo(tree)[0]["cpu cores"] == "4"
    assert cpuinfo(tree)[4]["siblings"] == "8"
    assert 11 not in cpuinfo(tree)
    assert lint(tree) == []
    left = {path.removeprefix(f"{CPU}/cpu11/") for path in tree if f"{CPU}/cpu11/" in path}
    assert left == {"online", "node0"}
    assert tree[f"{NODE}/node0/cpu11"] == Link("../../cpu/cpu11")


def test_a_whole_core_goes() -> None:
    tree = describe("2s-2n-8c-smt2").tree
    core = cpuinfo(without_cpus(tree, [3, 11]))[0]
    assert (core["siblings"], core["cpu cores"]) == ("6", "3")
    stepwise = without_cpus(without_cpus(tree, [3]), [11, 4])
    assert dict(stepwise) == dict(without_cpus(tree, [4, 11, 3]))
    assert dict(stepwise) == dict(describe("2s-2n-8c-smt2-off3,4,11").tree)


def test_a_numa_node_without_cpus_keeps_its_memory() -> None:
    tree = without_cpus(describe("2s-2n-4c-smt1").tree, [2, 3])
    assert tree[f"{NODE}/online"] == tree[f"{NODE}/has_memory"] == "0-1\n"
    assert tree[f"{NODE}/has_cpu"] == "0\n"
    assert tree[f"{NODE}/node1/cpulist"] == "\n"


def test_cpu_0_shows_a_switch_where_a_kernel_could_take_it_offline() -> None:
    tree = without_cpus(describe("1s-1n-2c-smt1").tree, [0])
    assert tree[f"{CPU}/cpu0/online"] == "0\n"
    assert tree[f"{CPU}/online"] == "1\n"


def test_nothing_to_do_is_the_same_tree_and_one_cpu_stays() -> None:
    machine = describe("1s-1n-4c-smt1-off3")
    with pytest.raises(MachineError, match="no CPU would be left online"):
        without_cpus(machine.tree, [0, 1, 2])
    assert without_cpus(machine.tree, [3]) is machine.tree
    assert offline(machine, []) is machine


@pytest.mark.parametrize("cpus", [[4], [-1], [1 << 70], [0, 99]])
def test_a_cpu_that_is_not_there_is_named(cpus: list[int]) -> None:
    with pytest.raises(MachineError, match=f"no CPU {cpus[-1]} to take offline"):
        without_cpus(describe("1s-1n-4c-smt1").tree, cpus)


@pytest.mark.parametrize("entries", [{}, {f"{CPU}/online": "x"}])
def test_a_tree_without_readable_online_cpus_is_broken(entries: dict[str, str]) -> None:
    with pytest.raises(BrokenMachine):
        without_cpus(Tree({f"{CPU}/cpu0/online": "1\n", **entries}), [0])


def test_odd_text_stays_as_odd() -> None:
    entries = {
        f"{CPU}/online": "0-1",
        f"{CPU}/cpu0/topology/thread_siblings": "3\0\0",
        f"{CPU}/cpu0/topology/core_siblings": "nonsense\n",
        f"{CPU}/cpu1/topology/core_id": "1\n",
        f"{CPU}/cpu0/cache": Link("../cpu1/cache"),
        "proc/cpuinfo": "processor 0: version = FF\nprocessor 1: version = FF\n",
    }
    tree = without_cpus(Tree(entries), [1])
    assert tree[f"{CPU}/cpu0/topology/thread_siblings"] == "1\n"
    assert tree[f"{CPU}/cpu0/topology/core_siblings"] == "nonsense\n"
    assert f"{CPU}/cpu1/topology/core_id" not in tree
    assert tree[f"{CPU}/cpu0/cache"] == Link("../cpu1/cache")
    assert tree["proc/cpuinfo"] == entries["proc/cpuinfo"]


def test_names_compose_with_the_grammar() -> None:
    machine = offline(offline(describe("2s-2n-8c-smt2-near"), [7, 8, 9]), {3})
    assert machine.name == machine.shape == "2s-2n-8c-smt2-near-off3,7-9"
    assert machine.digest == describe(machine.name).digest


@pytest.mark.parametrize(
    "name",
    [
        "20em64t-hybrid-1p6c2t+2ca4co1t",
        "128arm-2pa2n8cluster4co",
        "256ppc-8n8s4t",
        "fakecpuid1f-64intel64-2p4d2n2c2t",
        "96em64t-4no4pa3ca2co",
    ],
)
def test_captured_machines_stay_tidy(name: str) -> None:
    tree = load(CAPTURES / f"{name}.tar.xz")
    assert lint(tree) == []
    smaller = without_cpus(tree, [1, 5, 6])
    assert lint(smaller) == []
    assert f"{CPU}/cpu5/topology/core_id" not in smaller


def test_a_captured_machine_is_named_for_what_it_lost(tmp_path: Path) -> None:
    machine = Machine(name="node7", tree=describe("1s-1n-4c-smt1").tree, source="read from x")
    smaller = offline(machine, [2, 3])
    assert (smaller.name, smaller.shape) == ("node7-off2-3", "")
    shaped = Machine(name="node7", tree=machine.tree, shape="1s-1n-4c-smt1")
    assert offline(shaped, [3]).shape == "1s-1n-4c-smt1-off3"
    assert offline(shaped, [3]).name == "node7-off3"
