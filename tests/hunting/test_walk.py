"""The walk against a plain one: nothing is shared, remembered or left out."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

import topologies
from conformance.discovered import info_of
from conformance.promises import broken_in_step, promise_of, violations
from hunting.moves import after, next_moves
from hunting.scope import Task, regular, tasks, uneven
from hunting.walk import Broken, Ground, Tally, search, situation_of
from reference import CPUSet, IllegalStep, Node, NotModelled
from reference.steps import Pod, Start, Step
from reference.view import View

#: So many searches of each release are compared.
_SAMPLES: Final = {"1.37": 8, "1.36": 3, "1.26": 3, "1.22": 2, "1.17": 2}


@dataclass
class _Plain:
    """A state of the plain walk."""

    node: Node
    steps: tuple[Step, ...]
    seen: View | None
    pods: dict[str, Pod]
    applied: int


def _copied(node: Node) -> Node:
    """Everything but what was found of the machine, and functions of it."""
    fixed = [node._info, node._maker]
    if node._kubelet is not None:
        fixed.append(node._kubelet._container_manager.topology_manager)
        fixed += [getattr(node._kubelet.cpu_manager.policy, "topology", None)]
    return deepcopy(node, {id(one): one for one in fixed})


def _key(node: Node) -> Hashable:
    """Whatever the next steps go by, in full."""
    kubelet = node._kubelet
    if kubelet is None:
        return (False, node._errors, node._state_file, repr(sorted(map(repr, node._pods()))))
    manager, running = kubelet.cpu_manager, node._runtime.running()
    state, sent = manager.state, manager.sent
    last = [pod.uid for pod in manager.last_admitted]
    names = {pod.uid: name for name, pod in node._manifests.items()}
    shown: dict[str, Any] = dict(kubelet.pods)
    every = [
        (
            shown[names[uid]].phase if names.get(uid) in shown else None,
            (node._known[uid].containers, node._known[uid].resources)
            if uid in node._known
            else uid,
            sorted(state.entries.get(uid, {}).items(), key=repr),
            state.pod_entries.get(uid),
            sorted(running.get(uid, {}).items(), key=repr),
            [sent.get((uid, one)) for one in running.get(uid, {})],
            uid in last,
        )
        for uid in {*state.entries, *state.pod_entries, *running, *names}
    ]
    return (True, node._hangs, state.default, repr(sorted(map(repr, every))))


def _outcomes(node: Node) -> Iterator[Node]:
    yield node
    for branch in node._branches[1:]:
        twin = _copied(node)
        twin._take(branch)
        yield twin


def _taken(
    ground: Ground, state: _Plain, move: tuple[Step, ...], tally: Tally
) -> Iterator[tuple[_Plain, list[Any]]]:
    states = [state]
    for number, step in enumerate(move):
        reached = []
        for one in states:
            node = _copied(one.node)
            try:
                node.do(step)
            except (IllegalStep, NotModelled):
                continue
            tally.steps += 1
            pods = after(one.pods, (step,))
            for outcome in _outcomes(node):
                # Quotas are looked at where a step looks, and no step here does.
                view = replace(outcome.view(), asked={}, cfs={})
                situation = situation_of(ground.task, ground, pods)
                wrong = [
                    found
                    for found in (
                        *broken_in_step(one.seen, step, view, situation),
                        *violations(view, situation),
                    )
                    if promise_of(found.rule).is_made_for(ground.task.release)
                ]
                seen = view if view.running else one.seen
                applied = one.applied + (len(pods) > len(one.pods))
                made = _Plain(outcome, (*one.steps, step), seen, pods, applied)
                if wrong or number == len(move) - 1:
                    yield made, wrong
                else:
                    reached.append(made)
        states = reached


def _plainly(task: Task, depth: int, tally: Tally) -> Iterator[Broken]:
    ground, tree = Ground(task), topologies.machine(task.machine).tree
    node = Node(lambda _: tree, task.machine, task.config, release=task.release,
                discovering=info_of)  # fmt: skip
    start = _Plain(node, (), None, {}, 0)
    frontier = [one for one, _ in _taken(ground, start, (Start(),), tally) if one.seen]
    met = {_key(one.node) for one in frontier}
    for level in range(depth):
        reached = []
        for state in frontier:
            name = f"p{state.applied + 1}"
            for move in next_moves(state.pods, name, ground.free, task.config, task.release):
                for made, wrong in _taken(ground, state, move, tally):
                    yield from (Broken(task, made.steps, one) for one in wrong)
                    if wrong or not made.seen:
                        continue
                    key = _key(made.node)
                    if key in met:
                        tally.again += 1
                        continue
                    met.add(key)
                    tally.states += 1
                    if level + 1 < depth:
                        reached.append(made)
        frontier = reached


def _told(broken: Broken) -> tuple[str, list[str], str, str, str]:
    """Two containers may be named in either order."""
    difference = broken.violation.difference
    what = sorted(difference.what.split())
    return (broken.violation.rule, what, difference.expected, difference.seen, repr(broken.steps))


def _sample() -> list[tuple[Task, int]]:
    """Searches of two moves on small machines, and one of three on the smallest of 4 CPUs."""
    machines = (*regular(5), *uneven(5))
    drawn = random.Random(20)
    sample = [
        (task, 2)
        for release, count in _SAMPLES.items()
        for task in drawn.sample(list(tasks(release, machines, alpha=True)), count)
    ]
    longest = drawn.choice(list(tasks("1.37", ("1s-2n-2c-smt2",), alpha=True)))
    return [*sample, (longest, 3)]


@pytest.mark.parametrize(("task", "depth"), _sample(), ids=str)
def test_finds_states_and_steps_are_those_of_a_plain_walk(task: Task, depth: int) -> None:
    """Whatever the walk remembers or shares between nodes."""
    fast, plain = Tally(), Tally()
    found = sorted(_told(one) for one in search(task, depth, tally=fast))
    assert found == sorted(_told(one) for one in _plainly(task, depth, plain))
    assert (fast.steps, fast.states, fast.again) == (plain.steps, plain.states, plain.again)
    assert fast.steps


def test_a_view_that_breaks_a_promise_is_judged_each_time() -> None:
    """What is remembered is only that a node breaks none."""
    ground = Ground(next(iter(tasks("1.37", ("1s-1n-2c-smt2",)))))
    ((state, wrong),) = ground.taken(ground.first(), (Start(),), Tally())
    assert wrong == []
    assert state.seen is not None
    empty = replace(state.seen, shared_pool=CPUSet())
    for _ in range(2):
        found = ground.judged(state.seen, Start(), empty, {}, key="a key")
        assert {promise_of(one.rule).id for one in found} >= {"no-cpu-lost", "pool-not-empty"}
    assert ground.judged(state.seen, Start(), state.seen, {}, key="a key") == []
