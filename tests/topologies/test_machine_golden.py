"""What a real kubelet found each machine of the catalogue to be, and what the model finds."""

from __future__ import annotations

import pytest

from reference import NEWEST, discover
from tests.support.machine_golden import golden, in_order, modelled
from topologies import Tree, find, machine, names


@pytest.mark.parametrize("name", names())
def test_the_model_finds_what_a_real_kubelet_found(name: str) -> None:
    one = machine(name)
    recorded = golden(one)
    assert recorded is not None, (
        f"no golden result of {name} as it is now: "
        f"python -m differential.machine_golden 1.36 '{name}'"
    )
    assert recorded.version.startswith(f"v{NEWEST}.")
    assert recorded.digest.startswith("sha256:")
    info = discover(one.tree, architecture=recorded.architecture)
    said = modelled(info)
    assert said.cpu_topology == recorded.cpu_topology
    if "the order of the nodes" in info.by_chance:
        assert said.machine_info == in_order(recorded.machine_info)
    else:
        assert said.machine_info == recorded.machine_info


def test_a_golden_result_objects() -> None:
    """To a machine that differs in one file."""
    one = machine("2s-2n-32c-smt2-l3x4")
    recorded = golden(one)
    assert recorded is not None
    # The first of core 5's threads in the order of names, where its caches are read.
    path = "sys/devices/system/cpu/cpu37/cache/index3/id"
    said = modelled(discover(Tree({**one.tree, path: "9\n"})))
    assert said.machine_info != recorded.machine_info
    assert said.cpu_topology != recorded.cpu_topology


def test_a_changed_machine_has_no_golden_result() -> None:
    (one,) = find("1s-1n-4c-smt2")
    changed = type(one)(one.name, Tree({**one.tree, "proc/cpuinfo": "\n"}))
    assert golden(one) is not None
    assert golden(changed) is None
