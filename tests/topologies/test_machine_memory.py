"""Machines with other memory."""

from __future__ import annotations

import topologies
from reference import discover
from topologies import Tree, describe, machine, with_memory


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


def test_a_machine_without_numa_nodes_stays_as_it_is() -> None:
    one = machine("qemu-4s-4n-4c-smt1-s390x-books4-drawers4")
    assert not [path for path in with_memory(one, 1).tree if path.endswith("meminfo")]
