"""A node's archive, rehearsed with unmodified kubelets: ``pinproof upgrade --node``.

The node of these tests is one in a sandbox: what its kubelet has written goes into an archive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

import topologies
from conformance.kept_files import ALLOCATED, MEMORY, STATE
from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.process import Patience
from conformance.upgrading import Plan, rehearse
from reference import CPUSet
from reference.steps import (
    Delete,
    Device,
    Kind,
    KubeletConfig,
    Pod,
    RegisterDevices,
    Start,
    Step,
    Stop,
)
from tests.cli.running import Done, here
from tests.kubelet.conftest import Open, Script, applied
from tests.support.node_archives import write_archive

MACHINE: Final = "2s-2n-8c-smt2"
SETTINGS: Final = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}
CONFIG: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
#: Ten, of which three hold CPUs beside a gap.
PODS: Final = (
    guaranteed("gone", 2),
    guaranteed("db", 4),
    guaranteed_of("queue", [exclusive("prepare", 2, kind=Kind.INIT), exclusive("c", 2)]),
    guaranteed("web", 1),
    *(burstable(f"log{number}", request="50m") for number in range(7)),
)
HELD: Final = {
    "db": {"c": "2-3,10-11"},
    "queue": {"prepare": "4,12", "c": "4,12"},
    "web": {"c": "5"},
}
#: Before its first start.
FORGETS: Final = """if not os.path.exists('/pinproof/tmp/began'):
        open('/pinproof/tmp/began', 'w').close()
        os.unlink('/var/lib/kubelet/cpu_manager_state')"""

Written: TypeAlias = Callable[..., Mapping[str, str]]
Upgraded: TypeAlias = Callable[..., Done]


@pytest.fixture
def written(subject: KubeletSubject, tmp_path: Path) -> Written:
    """Writes ``node7.tar.xz`` of a node on which a kubelet has run these pods, after these steps,
    and has what that kubelet has kept."""

    def write(
        config: KubeletConfig = CONFIG,
        settings: Mapping[str, Any] = SETTINGS,
        *,
        pods: Sequence[Pod] = PODS,
        before: Sequence[Step] = (),
        static: Collection[str] = (),
    ) -> Mapping[str, str]:
        with closing(subject.node(topologies.machine(MACHINE), config)) as node:
            for step in (Start(), *before):
                node.do(step)
                node.settle(lambda view: view.running)
            for pod in pods:
                applied(node, pod)
            node.do(Delete("gone"))
            node.settle(lambda view: "gone" not in view.assignments)
            node.do(Stop())
            files = subject.kept_files(node)
        write_archive(
            tmp_path / "node7.tar.xz",
            machine=MACHINE,
            settings=settings,
            state=files[STATE],
            pods=[pod for pod in pods if pod.name != "gone"],
            files={name: text for name, text in files.items() if name != STATE},
            static=static,
            release=subject.info.release,
        )
        return files

    return write


@pytest.fixture
def upgraded(subject: KubeletSubject, newer: KubeletSubject, tmp_path: Path) -> Upgraded:
    """Rehearses the node of the archive with both kubelets."""
    names = [f"kubelet:{one.info.facts['path']}" for one in (subject, newer)]
    node = ("--node", "node7.tar.xz")
    return lambda *words, status: here(
        "upgrade", *names, *node, *words, cwd=tmp_path, status=status
    )


def test_ten_pods_of_a_node_keep_their_cpus_from_1_36_to_1_37(
    written: Written, upgraded: Upgraded
) -> None:
    files = written()
    assert {STATE, MEMORY, *ALLOCATED} <= files.keys()
    facts = json.loads(upgraded("--json", status=0).stdout)
    assert (facts["verdict"], facts["pinned"], facts["notes"]) == ("pass", 4, [])
    assert (facts["unlike the state file"], facts["broken"]) == ([], [])
    first, *later = facts["stages"]
    assert len(first["pods"]) == 10
    assert set(first["pods"].values()) == {"running"}
    assert first["exclusive"] == HELD
    for stage in later:
        assert stage["exclusive"].items() >= HELD.items()
        assert stage["restarted"] == []
    assert all(first["files"][name]["left"] == files[name] for name in (STATE, MEMORY))


def test_static_pods_are_new_to_another_release_while_the_old_ones_hold_their_cpus(
    written: Written, upgraded: Upgraded
) -> None:
    """1.37 on a node with six free CPUs refused a static pod of four like this one."""
    written(pods=(guaranteed("gone", 4), guaranteed("db", 8), burstable("log")), static=["db"])
    facts = json.loads(upgraded("--json", status=1).stdout)
    first, second, *_ = facts["stages"]
    assert first["pods"] == {"db": "running", "log": "running"}
    assert (second["pods"]["db"], second["pods"]["log"]) == ("rejected", "running")
    (found,) = (one for one in facts["broken"] if one["leg"] == "the upgrade")
    (row,) = found["differences"]
    assert row["what"] == "pod db"
    assert "not enough cpus available to satisfy request: requested=8, available=6" in row["seen"]


NIC: Final = "pinproof.invalid/nic"


def test_memory_and_devices_of_a_node_are_found_by_the_kubelets(
    written: Written, upgraded: Upgraded
) -> None:
    """A kubelet that finds the memory manager's file without its policy does not start; and one
    refuses a pod that was allocated a device which no plugin registers."""
    memory = {0: "64Mi", 1: "64Mi"}
    config = replace(CONFIG, memory_manager_policy="Static", reserved_memory=memory)
    rows = [{"numaNode": node, "limits": {"memory": text}} for node, text in memory.items()]
    settings = {**SETTINGS, "memoryManagerPolicy": "Static", "reservedMemory": rows}
    with_device = replace(exclusive("c", 2), devices=((NIC, 1),))
    pods = (guaranteed("gone", 2), guaranteed_of("db", [with_device]))
    plugin = RegisterDevices(NIC, (Device("d0", (0,)),))
    files = written(config, settings, pods=pods, before=[plugin])
    assert '"policyName":"Static"' in files[MEMORY]
    checkpoint = "device-plugins/kubelet_internal_checkpoint"
    assert NIC in files[checkpoint]
    facts = json.loads(upgraded("--json", status=0).stdout)
    assert facts["notes"][:3] == [
        f"requests ignored, which may decide NUMA nodes: {NIC}",
        *(f"{name} is left out, because it names {NIC}" for name in ALLOCATED),
    ]
    assert "memory manager Static" in facts["settings"]
    first = facts["stages"][0]["files"]
    assert first[MEMORY]["left"] == files[MEMORY]
    assert NIC in first[checkpoint]["left"]


def test_a_kubelet_that_begins_from_something_else_is_seen(
    written: Written, wrapped: Script, open_kubelet: Open, newer: KubeletSubject
) -> None:
    """It loses the captured state file before it starts for the first time."""
    files = written(pods=PODS[:2])
    old = open_kubelet(wrapped(FORGETS), patience=Patience(effect=2.0))
    plan = Plan(topologies.machine(MACHINE), CONFIG, (), (), state=files[STATE], known=PODS[1:2])
    row, pool = rehearse(old, newer, plan).unlike_file
    held = HELD["db"]["c"]
    assert (row.what, row.expected, row.seen) == ("exclusive CPUs db/c", held, "1-2,9-10")
    assert pool.what == "shared pool"


def test_a_node_whose_kubelet_does_not_start_on_its_settings_is_one_line(
    written: Written, upgraded: Upgraded
) -> None:
    """Of an archive, before a kubelet is started."""
    written(pods=PODS[:2], settings={**SETTINGS, "cpuManagerPolicyOptions": {"no-such": "true"}})
    done = upgraded(status=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("pinproof: the kubelet would not start: ")
    assert "no-such" in line
