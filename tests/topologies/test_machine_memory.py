"""Machines with other memory."""

from __future__ import annotations

import topologies
from reference import discover
from topologies import Tree, describe, machine, with_huge_pages, with_memory


def test_every_numa_node_has_so_much_memory() -> None:
    """Those without CPUs as well; nothing else is changed but huge pages, which are gone."""
    before = describe("2s-4n-16c-smt2")
    pages = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    before = topologies.Machine("m", Tree({**before.tree, pages: "7\n"}), "", "", "a source")
    after = with_memory(before, 256)
    assert after.name == "m-256mib"
    assert after.source == "a source, with other memory"
    info = discover(after.tree)
    assert [node.memory for node in info.nodes] == [256 << 20] * 4
    assert info.cpu_topology() == discover(before.tree).cpu_topology()
    assert pages not in after.tree
    assert before.digest != after.digest


def test_numa_nodes_may_have_different_memory() -> None:
    """The last size is that of all further NUMA nodes. The machine is found by its name."""
    made = with_memory(machine("2s-4n-64c-smt2"), 255, 257, 256)
    assert made.name == "2s-4n-64c-smt2-255,257,256mib"
    sizes = [node.memory >> 20 for node in discover(machine(made.name).tree).nodes]
    assert sizes == [255, 257, 256, 256]
    more = with_memory(machine("1s-1n-4c-smt2"), 5, 6, 7)
    assert [node.memory >> 20 for node in discover(more.tree).nodes] == [5]


def test_numa_nodes_may_have_huge_pages() -> None:
    """Of several sizes, which are part of the memory. The machine is found by its name."""
    made = with_huge_pages(with_memory(machine("2s-4n-64c-smt2"), 256), "2Mi", 16, 0, 8)
    made = with_huge_pages(made, "1Gi", 0, 1)
    assert made.name == "2s-4n-64c-smt2-256mib-hugepages-2Mi-16,0,8-hugepages-1Gi-0,1"
    info = discover(machine(made.name).tree)
    found = [{name: size >> 20 for name, size in node.huge_pages} for node in info.nodes]
    assert found == [
        {"hugepages-1Gi": 1024 * large, "hugepages-2Mi": small}
        for small, large in ((32, 0), (0, 1), (16, 1), (16, 1))
    ]
    assert {name: size >> 20 for name, size in info.huge_pages.items()} == {
        "hugepages-1Gi": 3072, "hugepages-2Mi": 64,
    }  # fmt: skip
    assert [node.memory >> 20 for node in info.nodes] == [256] * 4
    assert with_memory(made, 128).tree == with_memory(machine("2s-4n-64c-smt2"), 128).tree


def test_huge_pages_of_a_size_beyond_all_suffixes() -> None:
    folder = "sys/devices/system/node/node0/hugepages"
    tree = {**machine("1s-1n-4c-smt2").tree, f"{folder}/hugepages-{1 << 63}kB/nr_hugepages": "1\n"}
    (node,) = discover(Tree(tree)).nodes
    assert dict(node.huge_pages)["hugepages-8192Ei"] == 1 << 73


def test_a_machine_is_changed_once_in_each_way() -> None:
    """The catalogue's scenarios ask for the same variants of a machine again and again. One without
    NUMA nodes stays as it is."""
    without_nodes = machine("qemu-4s-4n-4c-smt1-s390x-books4-drawers4")
    assert with_memory(without_nodes, 1) is without_nodes
    assert with_huge_pages(without_nodes, "2Mi", 1) is without_nodes
    one = machine("2s-2n-8c-smt2")
    assert with_memory(one, 128) is with_memory(one, 128)
    assert with_memory(one, 128) is not with_memory(one, 256)
    assert with_huge_pages(one, "2Mi", 1) is with_huge_pages(one, "2Mi", 1)
    assert with_huge_pages(one, "2Mi", 1) is not with_huge_pages(one, "1Gi", 1)
    assert topologies.offline(one, [3, 7]) is topologies.offline(one, [3, 7])
    assert topologies.offline(one, [3]) is not topologies.offline(one, [7])
    assert topologies.offline(describe("2s-2n-8c-smt2"), [3]) == topologies.offline(one, [3])
