"""Families of moves: each brings about what it says, and none is on by itself."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.promises import histories
from conformance.subject import SubjectUsageError
from conformance.written import read, written
from hunting.families import DEVICE, FAMILIES, Scene, configured, moves_of, named
from hunting.moves import next_moves
from hunting.replaying import replayed
from hunting.scope import Task, configurations, tasks
from hunting.source import call_of
from hunting.walk import Ground, State, Tally, moves_from, search
from reference import CPUSet
from reference.steps import (
    CREATE,
    Apply,
    ApplyTogether,
    Device,
    KubeletConfig,
    Reboot,
    RegisterDevices,
    Resize,
    Start,
    Step,
    Stop,
)
from reference.view import Phase

_RESERVED: Final = KubeletConfig(reserved_system_cpus=CPUSet([0]))
_MACHINE: Final = "1s-2n-4c-smt2"
#: A release in which the settings of a family change something.
_RELEASES: Final = {"alignment": "1.17"}


def scene(config: KubeletConfig = _RESERVED, release: str = "1.37") -> Scene:
    """A node with one pod of two CPUs."""
    ground = Ground(Task(release, _MACHINE, config))
    applied = {"p1": guaranteed("p1", 2)}
    return Scene(applied, "p2", 7, config, release, _MACHINE, ground.topology, ("1.36",))


def reached(ground: Ground, *steps: Step) -> State:
    """What these steps lead to on a fresh node, where no chance decides."""
    ((made, _),) = ground.taken(ground.first(), steps, Tally())
    return made


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_takes_steps_that_no_other_history_has(name: str) -> None:
    """On a node with a pod or without one; or it has settings of its own."""
    release = _RELEASES.get(name, "1.37")
    gate = {} if release == "1.17" else {"PodLevelResources": True}
    config = replace(_RESERVED, feature_gates=gate)
    (first, *_) = configured(config, (name,), release)
    task = Task(release, _MACHINE, first, ("1.36",))
    ground = Ground(task)
    empty = reached(ground, Start())
    full = reached(ground, Start(), Apply(guaranteed("p1", 2)))
    taken = [
        made
        for state in (empty, full)
        for move in moves_from(state, ground, (name,))
        if move not in list(moves_from(state, ground, ()))
        for made, _ in ground.taken(state, move, Tally())
    ]
    assert taken or list(configured(config, (name,), release)) != [config]


def test_no_family_is_on_by_itself() -> None:
    """So the exhaustive search stays as small as it is."""
    here = scene()
    plain = list(next_moves(here.applied, here.name, here.free, here.config, here.release))
    ground = Ground(Task("1.37", _MACHINE, _RESERVED))
    state = reached(ground, Start(), Apply(guaranteed("p1", 2)))
    assert list(moves_from(state, ground, ())) == plain
    assert len(list(tasks("1.37", (_MACHINE,)))) == len(list(configurations("1.37")))


def test_the_docs_list_each_family() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/hunting.md").read_text()
    for family in FAMILIES.values():
        assert f"| `{family.name}` | {family.sentence} |\n" in page


def test_families_are_named_in_a_list() -> None:
    """Once each; one that there is not is named with those that there are."""
    assert named("ends,devices,ends") == ("ends", "devices")
    assert named("all") == tuple(FAMILIES)
    assert named("") == ()
    with pytest.raises(SubjectUsageError, match="--moves ghosts: the families are ends"):
        named("ends,ghosts")


@pytest.mark.parametrize("step", {type(one): one for move in moves_of(
    scene(replace(_RESERVED, feature_gates={"PodLevelResources": True})), tuple(FAMILIES)
) for one in move}.values(), ids=lambda step: type(step).__name__)  # fmt: skip
def test_every_step_of_a_family_is_written_and_read_again(step: Step) -> None:
    """As a find keeps it; and as a scenario takes it, by a method that its node has."""
    assert read(written(step)) == step
    call = ast.parse(call_of(step), mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    assert hasattr(LockstepNode, call.func.attr)


def test_a_slow_call_of_the_runtime_is_written_and_read_again() -> None:
    step = ApplyTogether((best_effort("a"), best_effort("b")), CREATE)
    assert read(written(step)) == step
    assert call_of(step).endswith("slow='CreateContainer')")


def test_on_another_machine_a_kubelet_may_refuse_to_go_on() -> None:
    """From 1.12 on it does, as is documented; what it promised of the CPUs it had is no promise
    about those it has."""
    task = Task("1.37", "1s-1n-4c-smt1", _RESERVED)
    assert list(search(task, 1, families=("machines",))) == []
    ground = Ground(task)
    other = reached(ground, Start(), Stop(), Reboot("1s-1n-4c-smt1-off3"), Start())
    assert "doesn't match" in other.node.view().error
    assert reached(ground, Start(), Stop(), Reboot(), Start()).node.view().running


def test_a_kubelet_that_cannot_start_on_a_machine_breaks_a_promise() -> None:
    """1.31 on s390x; 1.32 can."""
    machine = "qemu-4s-4n-4c-smt1-s390x-books4-drawers4"
    found = [one.violation.rule for one in search(Task("1.31", machine, _RESERVED), 1)]
    assert histories.STARTS in found
    later = [one.violation.rule for one in search(Task("1.32", machine, _RESERVED), 1)]
    assert histories.STARTS not in later


def test_after_a_reboot_no_pod_goes_on() -> None:
    """One whose device no plugin has registered yet is refused, and none was running."""
    device = replace(exclusive("c", 1), devices=((DEVICE, 1),))
    pod = guaranteed_of("p1", [device])
    begun = (Start(), RegisterDevices(DEVICE, (Device("d0"),)), Apply(pod), Stop())
    task = Task("1.37", "1s-1n-4c-smt1", _RESERVED)
    assert replayed(task, (*begun, Reboot(), Start()), "goes-on") is None
    assert replayed(task, (*begun, Start()), "goes-on") is None


def test_a_resize_of_a_pod_that_was_refused_is_left_out() -> None:
    """The model does not know what an API server makes of one."""
    config = replace(_RESERVED, api_server=True)
    ground = Ground(Task("1.37", "1s-1n-4c-smt1", config))
    full = reached(ground, Start(), Apply(guaranteed("p1", 4)))
    assert full.node.view().pods["p1"].phase is Phase.REJECTED
    assert list(ground.taken(full, (Resize(guaranteed("p1", 2)),), Tally())) == []


_BY_SOCKET: Final = replace(_RESERVED, policy_options={"align-by-socket": "true"})


@pytest.mark.parametrize(
    ("machine", "config"),
    [
        ("1s-1n-3c-smt1", replace(_RESERVED, reserved_system_cpus=CPUSet([0, 4]))),
        # As is documented of align-by-socket, which is an alpha option.
        ("1s-1n-4c-smt1", _BY_SOCKET),
        (
            "qemu-4s-1n-4c-smt1",
            replace(_BY_SOCKET, feature_gates={"CPUManagerPolicyAlphaOptions": True}),
        ),
    ],
    ids=["CPU 4 of three reserved", "no feature gate", "more sockets than NUMA nodes"],
)
def test_a_kubelet_may_refuse_what_is_not_for_the_machine(
    machine: str, config: KubeletConfig
) -> None:
    assert list(search(Task("1.37", machine, config), 1)) == []
