"""What happens to a node once the pod of a row is there.

What belongs here: the values of the factors ``event``, ``then`` and ``finally``, each with its
steps. What never does: which value is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from conformance.discovered import info_of
from conformance.pods import best_effort, burstable, guaranteed
from conformance.subject import Capability
from hunting.exploring.drafting import Draft
from hunting.exploring.pods import RESTARTS_ALL, pod_of
from hunting.exploring.settings import machine_of, registration
from hunting.scope import POD_LEVEL
from reference import Checkpoint, CPUSet
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import OPTIONS
from reference.feature_gates import ALPHA, readiness
from reference.kubelet.startup import allocatable
from reference.pods.pod import NODE_CRITICAL, Container, Kind, Pod
from reference.pods.pod_level_resources import pod_managers_on
from reference.pods.qos import memory_request, pod_milli_cpus
from reference.releases import has
from reference.steps import (
    CREATE,
    FOR_EVER,
    UPDATE,
    AddEphemeral,
    Apply,
    ApplyTogether,
    AskAllocatable,
    AskMetrics,
    AwaitReconcile,
    Configure,
    Delete,
    EndStopping,
    FailUpdates,
    FailWrites,
    KillAtRename,
    KillContainer,
    KubeletConfig,
    Reboot,
    RemoveState,
    Replace,
    ReplaceStopping,
    Resize,
    RestartRuntime,
    Start,
    Step,
    Stop,
    Tamper,
    TamperQuota,
    WriteState,
)


class Event(NamedTuple):
    """``happens`` takes its steps on the draft, and says whether all of them were possible.
    ``needs``: what a subject must be able to do; ``since``: the first minor that has it."""

    happens: Callable[[Draft], bool]
    needs: Capability | None = None
    since: int = 0


_NOTHING: Final = "nothing"
#: How many updates are refused in a row. Kubelet and model try again once a round, so both take as
#: many rounds until the node is at rest.
_MANY: Final = 20


def happen(draft: Draft) -> frozenset[str]:
    """Let the row's events happen; returns the names of the factors whose values that shows."""
    shown = set()
    if EVENTS[draft.row["event"]].happens(draft):
        shown.add("event")
        if not draft.view.hangs and THEN[draft.row["then"]].happens(draft):
            shown.add("then")
    if draft.row["finally"] != _NOTHING and draft.view.running:
        draft.take(AskMetrics())  # a start resets the metrics
    if not draft.view.hangs and FINALLY[draft.row["finally"]].happens(draft):
        shown.add("finally")
    return frozenset(shown)


def _own(draft: Draft) -> Pod:
    assert draft.pod is not None
    return draft.pod


def _granted(draft: Draft) -> Pod:
    """The row's pod with the size that it was granted last."""
    return draft.node.granted.get(_own(draft).name, _own(draft))


def _second(draft: Draft) -> Pod:
    """A pod as the row's, under another name."""
    return pod_of(draft.row, draft.room, f"{_own(draft).name}-2")


def _nothing(draft: Draft) -> bool:
    return True


def _delete(draft: Draft) -> bool:
    return draft.take(Delete(_own(draft).name))


def _delete_and_apply(draft: Draft) -> bool:
    pod = _own(draft)
    draft.pod = pod_of(draft.row, draft.room, pod.name, again=1)
    return draft.take(Delete(pod.name), Apply(draft.pod))


def _put_back(draft: Draft) -> bool:
    """The same manifest, so the pod has the same uid, once the kubelet has forgotten it. Another
    pod has taken its CPUs since, or as many as leave it room. A pod of an API server would have
    another uid, and a pod with a container that is not restarted would count as ended."""
    if draft.task.config.api_server or _own(draft).may_end or _own(draft).may_stay_ended:
        return False
    own = pod_milli_cpus(_own(draft)) // 1000
    size = min(own, sum(draft.room.left) - own)
    gone = draft.take(Delete(_own(draft).name)) and draft.another("next", size)
    return gone and draft.take(AwaitReconcile(), Apply(_own(draft)))


def _replaced(draft: Draft) -> bool:
    """The reconcile period is ten seconds (``settings``): no round hides what admission does."""
    gone, draft.pod = _own(draft).name, _second(draft)
    return draft.take(Replace(gone, draft.pod))


def _replaced_while_it_stops(draft: Draft) -> bool:
    gone, draft.pod = _own(draft).name, _second(draft)
    return draft.take(ReplaceStopping(gone, draft.pod), EndStopping())


def _three_while_down(draft: Draft) -> bool:
    pods = (guaranteed("late-1", 2), burstable("late-2", request="500m"), guaranteed("late-3", 1))
    return draft.restart(*map(Apply, pods))


def _three_at_once(draft: Draft) -> bool:
    """Each pod is admitted before the containers of the one before it are created."""
    shared = burstable("at-once-2", request="500m")
    return draft.take(ApplyTogether((guaranteed("at-once-1", 2), shared, _second(draft))))


def _slow_runtime(draft: Draft) -> bool:
    """The pool changes while a pod's first container is created, and then while a shared container
    is given the pool before."""
    shared, late = burstable("shared", request="500m"), guaranteed("late", 1)
    created = ApplyTogether((shared, guaranteed("at-once", 1)), slow=CREATE)
    updated = ApplyTogether((late, _second(draft)), slow=UPDATE)
    return draft.take(created, updated, AwaitReconcile())


def _kill(draft: Draft, *kinds: Kind, exit_code: int | None = None) -> bool:
    name = draft.container(*kinds)
    code = {} if exit_code is None else {"exit_code": exit_code}
    return bool(name) and draft.take(KillContainer(_own(draft).name, name, **code))


def _restarts_all(draft: Draft) -> bool:
    return draft.row["restart rule"] != "none" and _kill(draft, exit_code=RESTARTS_ALL)


def _kill_on_another_pool(draft: Draft) -> bool:
    """Another pod has taken CPUs since the container was started."""
    return draft.another("next", 2) and _kill(draft)


def _kill_twice(draft: Draft) -> bool:
    """The kubelet restarts between: else it waits ten seconds before the container's next start."""
    return _kill(draft) and draft.restart(kill=True) and _kill(draft)


def _kill_while_down(draft: Draft) -> bool:
    name = draft.container()
    return bool(name) and draft.restart(KillContainer(_own(draft).name, name))


def _tamper(draft: Draft) -> bool:
    every = CPUSet(draft.room.topology.cpus)
    pod = _own(draft).name
    return draft.take(Tamper(pod, draft.container(), every), AwaitReconcile())


def _tamper_quota(draft: Draft) -> bool:
    pod = _own(draft).name
    return draft.take(TamperQuota(pod, draft.container(), 50_000), AwaitReconcile())


def _refuse(draft: Draft, times: int) -> bool:
    pod = guaranteed("late", 1)
    return draft.take(FailUpdates(times), Apply(pod), AwaitReconcile(), Delete("late"))


def _refuse_all(draft: Draft) -> bool:
    """Rounds in which every update fails, or every one of one container, then one that sends the
    updates again."""
    refusing = FailUpdates(FOR_EVER), Apply(guaranteed("late", 1)), AwaitReconcile()
    shared, last = Apply(burstable("shared", request="500m")), Apply(guaranteed("last", 1))
    of_one = FailUpdates(FOR_EVER, draft.container()), last, AwaitReconcile()
    return draft.take(*refusing, shared, *of_one, FailUpdates(0), AwaitReconcile())


def _plugin_fails(draft: Draft) -> bool:
    """A pod's devices cannot be allocated, and then they can."""
    devices = registration(draft.row, draft.task.machine, draft.task.release)
    if devices is None or draft.row["requested devices"] == "none":
        return False
    again = pod_of(draft.row, draft.room, f"{_own(draft).name}-3")
    failing = replace(devices, failures=1)
    return draft.take(Delete(_own(draft).name), failing, Apply(_second(draft)), Apply(again))


def _resized(pod: Pod, name: str, by: int) -> Pod | None:
    """The pod with so many CPUs more for one container; ``None`` where it has no such size."""
    containers = list(pod.containers)
    for at, one in enumerate(containers):
        if one.name != name:
            continue
        if not (one.cpu_limit or "").isdigit() or int(one.cpu_limit or "0") + by < 1:
            return None
        more = str(int(one.cpu_limit or "0") + by)
        containers[at] = replace(one, cpu_request=more, cpu_limit=more)
    return replace(pod, containers=tuple(containers))


def _resize(draft: Draft, by: int, *kinds: Kind) -> bool:
    name = draft.container(*kinds)
    other = _resized(_granted(draft), name, by) if name else None
    if other is None or pod_milli_cpus(other) > 1000 * draft.room.free:
        return False  # the API server refuses what no node of this size could ever grant
    return draft.take(Resize(other))


def _grow_too_far(draft: Draft) -> bool:
    """The pod grows to all CPUs that the node has for pods, some of which other pods hold. The API
    server refuses more than that."""
    own = _granted(draft)
    size = next((one.cpu_limit or "" for one in own.containers if one.kind is Kind.APP), "")
    asked = pod_milli_cpus(own)
    return size.isdigit() and _resize(draft, draft.room.free - asked // 1000)


def _more_memory(draft: Draft) -> bool:
    """The first app container gets twice its memory."""
    name = draft.container()
    own = _granted(draft)
    one = next(one for one in own.containers if one.name == name)
    if one.memory_limit is None:
        return False
    more = f"{2 * (int(memory_request(one)) >> 20)}Mi"
    other = replace(one, memory_request=more, memory_limit=more)
    changed = tuple(other if each is one else each for each in own.containers)
    return draft.take(Resize(replace(own, containers=changed)))


def _critical(draft: Draft) -> bool:
    """A critical pod without exclusive CPUs requests a CPU more than is left: the kubelet preempts
    other pods, where that is enough."""
    pod = burstable("critical", request=f"{_left(draft) + 1000}m")
    return draft.take(Apply(replace(pod, priority=NODE_CRITICAL)))


def _left(draft: Draft) -> int:
    """Thousandths of a CPU that the node has for pods, and that no running pod requests."""
    task = draft.task
    info = info_of(machine_of(task.machine).tree, release=task.release)
    runs = [pod for name, pod in draft.node.granted.items() if draft.runs(name)]
    return allocatable(info, task.config, task.release) - sum(map(pod_milli_cpus, runs))


def _ephemeral(draft: Draft) -> bool:
    return draft.take(AddEphemeral(_own(draft).name, "debugger"), AwaitReconcile())


def _none_for_a_while(draft: Draft) -> bool:
    config = draft.task.config
    none = Configure(replace(config, policy="none", policy_options={}))
    first = draft.take(Stop(), none, RemoveState(), Start())
    draft.take(AskAllocatable())
    return first and draft.restart(Configure(config), RemoveState())


def _options_off(draft: Draft) -> bool:
    config = draft.task.config
    return bool(config.policy_options) and draft.restart(
        Configure(replace(config, policy_options={}))
    )


def _refused(draft: Draft, *wrong: KubeletConfig) -> bool:
    """The kubelet refuses each of these configurations, and starts again with its own."""
    tries = [step for one in wrong for step in (Configure(one), Start())]
    return draft.restart(*tries, Configure(draft.task.config))


def _wrong_options(draft: Draft) -> bool:
    config, release = draft.task.config, draft.task.release
    options = [{"no-such-option": "true"}, {"full-pcpus-only": "yes"}]
    wrong = [replace(config, policy_options={**config.policy_options, **one}) for one in options]
    alpha = [name for name, stages in OPTIONS.items() if readiness(stages, release) is ALPHA]
    closed = {**config.feature_gates, "CPUManagerPolicyAlphaOptions": False}
    for one in alpha[:1]:
        wrong.append(replace(config, policy_options={one: "true"}, feature_gates=closed))
    none = replace(config, policy="none", policy_options={"full-pcpus-only": "true"})
    return _refused(draft, *wrong, none, replace(config, policy="statik"))


def _wrong_alignment(draft: Draft) -> bool:
    config = replace(draft.task.config, topology_manager_policy="best-effort")
    wrong = [
        replace(config, topology_manager_policy_options=one)
        for one in ({"prefer-closest-numa-nodes": "yes"}, {"no-such-option": "true"})
        if has(draft.task.release, Behaviour.TOPOLOGY_OPTIONS)
    ]
    return _refused(
        draft,
        *wrong,
        replace(config, topology_manager_policy="strict"),
        replace(config, topology_manager_scope="node"),
    )


def _wrong_reservation(draft: Draft) -> bool:
    """No reservation, one of more CPUs than there are, and a list with a CPU that is not there."""
    none = replace(
        draft.task.config, reserved_system_cpus=None, system_reserved=None, kube_reserved=None
    )
    cpus = draft.room.topology.cpus
    wrong = [none, replace(none, system_reserved=str(len(cpus) + 1))]
    if has(draft.task.release, Behaviour.RESERVED_CPU_LIST):
        absent = CPUSet([min(cpus), max(cpus) + 1])
        wrong.append(replace(none, reserved_system_cpus=absent))
    return _refused(draft, *wrong)


def _wrong_state_files(draft: Draft) -> bool:
    """One that is cut off, one with a wrong checksum, one of fewer CPUs, and one of policy none."""
    config, release = draft.task.config, draft.task.release
    fewer = Checkpoint("static", draft.room.topology.cpus - CPUSet([max(draft.room.topology.cpus)]))
    right, none = (
        one.dumps(release=release, feature_gates=config.feature_gates)
        for one in (fewer, Checkpoint("none", CPUSet()))
    )
    texts = right[: len(right) // 2], re.sub(r'"checksum":\d', '"checksum":7', right), right, none
    tries = [step for text in texts for step in (WriteState(text), Start())]
    return draft.restart(*tries, RemoveState())


def _other_reservation(draft: Draft) -> bool:
    """Another CPU is reserved for a while. The kubelet refuses to start where a pod holds it."""
    config = draft.task.config
    other = replace(
        config,
        reserved_system_cpus=CPUSet([max(draft.room.topology.cpus)]),
        system_reserved=None,
        kube_reserved=None,
    )
    first = draft.take(Stop(), Configure(other), Start())
    if draft.view.running:
        return first and draft.register() and draft.restart(Configure(config))
    return first and draft.take(Configure(config), Start()) and draft.register()


def _other_alignment(draft: Draft) -> bool:
    """Another topology policy for a while, which admits pods that hold CPUs by other rules."""
    config = draft.task.config
    aligned = config.topology_manager_policy == "single-numa-node"
    policy = "none" if aligned else "single-numa-node"
    other = replace(config, topology_manager_policy=policy, topology_manager_policy_options={})
    return draft.restart(Configure(other)) and draft.restart(Configure(config))


def _other_gates(draft: Draft) -> bool:
    """Each gate that decides the form of the state file, or which options there are, is switched
    over for a while."""
    config = draft.task.config
    on = pod_managers_on(config.feature_gates, release=draft.task.release)
    whole = dict.fromkeys(POD_LEVEL, not on)
    for gates in (whole, {"CPUManagerPolicyBetaOptions": False}):
        other = replace(config, feature_gates={**config.feature_gates, **gates})
        if not draft.restart(Configure(other)):
            return False
    return draft.restart(Configure(config))


def _killed_at_write(draft: Draft, *, after: bool) -> bool:
    kill: tuple[Step, ...] = (KillAtRename(1, after=after), Apply(guaranteed("late", 1)), Start())
    return draft.take(*kill) and draft.register()


def _writes_fail(draft: Draft) -> bool:
    """A pod is admitted while one write of the state file fails, and a second one while all do. The
    next kubelet starts over a file that is behind."""
    one_fails = FailWrites(1), Apply(_second(draft))
    all_fail = FailWrites(FOR_EVER), Apply(guaranteed("late", 1)), Delete(_own(draft).name)
    return draft.take(*one_fails, *all_fail) and draft.restart(kill=True)


def _too_large(draft: Draft) -> bool:
    """A pod whose first container fits, and has the name of one of the row's pod. The second one
    does not fit."""
    own = draft.container()
    first = guaranteed("large", 1).containers[0]
    second = guaranteed("large", draft.room.free + 1).containers[0]
    pod = Pod("large", (replace(first, name=own), replace(second, name="more")))
    return draft.take(Apply(pod))


def _smaller_machine(draft: Draft) -> bool:
    last = max(draft.room.topology.cpus)
    if "-off" in draft.task.machine or "mib" in draft.task.machine:
        return False
    return draft.restart(Reboot(f"{draft.task.machine}-off{last}"), RemoveState())


EVENTS: Final[dict[str, Event]] = {
    "none": Event(_nothing),
    "restart": Event(lambda draft: draft.restart(), Capability.RESTART),
    "kill": Event(lambda draft: draft.restart(kill=True), Capability.RESTART),
    "two restarts": Event(
        lambda draft: draft.restart() and draft.restart(kill=True), Capability.RESTART
    ),
    "reboot": Event(lambda draft: draft.restart(Reboot()), Capability.REBOOT),
    "reboot without the pod": Event(
        lambda draft: draft.restart(Reboot(), Delete(_own(draft).name)), Capability.REBOOT
    ),
    "delete": Event(_delete),
    "delete by force": Event(lambda draft: draft.take(Delete(_own(draft).name, force=True))),
    "delete and apply again": Event(_delete_and_apply),
    "replaced before a round": Event(_replaced, Capability.CONFIGURE),
    "replaced while it stops": Event(_replaced_while_it_stops, Capability.CALLS, 26),
    "put back later": Event(_put_back),
    "delete while down": Event(
        lambda draft: draft.restart(Delete(_own(draft).name)), Capability.RESTART
    ),
    "apply while down": Event(
        lambda draft: draft.restart(Apply(guaranteed("late", 1))), Capability.RESTART
    ),
    "three pods while down": Event(_three_while_down, Capability.RESTART),
    "three pods at once": Event(_three_at_once, Capability.CALLS, 18),
    "a slow runtime": Event(_slow_runtime, Capability.CALLS, 26),
    "a container restarts all": Event(_restarts_all, Capability.EXIT_CODES, 36),
    "kill a container": Event(_kill, Capability.CONTAINERS),
    "a container ends": Event(lambda draft: _kill(draft, exit_code=0), Capability.EXIT_CODES),
    "kill a container while down": Event(_kill_while_down, Capability.CONTAINERS),
    "kill a container twice": Event(_kill_twice, Capability.CONTAINERS),
    "kill a sidecar": Event(lambda draft: _kill(draft, Kind.SIDECAR), Capability.CONTAINERS),
    "tamper with a cpuset": Event(_tamper, Capability.TAMPER),
    "tamper with a quota": Event(_tamper_quota, Capability.CFS),
    "refuse one update": Event(lambda draft: _refuse(draft, 1), Capability.CALLS),
    "refuse twenty updates": Event(lambda draft: _refuse(draft, _MANY), Capability.CALLS),
    "refuse every update for a while": Event(_refuse_all, Capability.CALLS),
    "an allocation of devices fails": Event(_plugin_fails, Capability.DEVICES, 20),
    "restart the runtime": Event(
        lambda draft: draft.take(RestartRuntime(), AwaitReconcile()), Capability.RUNTIME
    ),
    "grow": Event(lambda draft: _resize(draft, 1), Capability.API_SERVER, 33),
    "shrink": Event(lambda draft: _resize(draft, -1), Capability.API_SERVER, 33),
    "grow the sidecar": Event(
        lambda draft: _resize(draft, 1, Kind.SIDECAR), Capability.API_SERVER, 33
    ),
    "grow too far": Event(_grow_too_far, Capability.API_SERVER, 33),
    "more memory": Event(_more_memory, Capability.API_SERVER, 33),
    "a critical pod": Event(_critical, Capability.API_SERVER, 26),
    "ephemeral container": Event(_ephemeral, Capability.API_SERVER),
    "policy none for a while": Event(_none_for_a_while, Capability.EDIT_STATE),
    "options off": Event(_options_off, Capability.CONFIGURE),
    "wrong options for a while": Event(_wrong_options, Capability.CONFIGURE, 22),
    "wrong alignment for a while": Event(_wrong_alignment, Capability.CONFIGURE, 20),
    "wrong reservations for a while": Event(_wrong_reservation, Capability.CONFIGURE, 18),
    "wrong state files for a while": Event(_wrong_state_files, Capability.EDIT_STATE, 18),
    "another reservation for a while": Event(_other_reservation, Capability.CONFIGURE, 18),
    "another topology policy for a while": Event(_other_alignment, Capability.CONFIGURE, 18),
    "other gates for a while": Event(_other_gates, Capability.CONFIGURE, 36),
    "state file removed": Event(lambda draft: draft.restart(RemoveState()), Capability.EDIT_STATE),
    "killed before a write": Event(partial(_killed_at_write, after=False), Capability.RENAMES),
    "killed after a write": Event(partial(_killed_at_write, after=True), Capability.RENAMES),
    "writes fail until a restart": Event(_writes_fail, Capability.RENAMES, 18),
    "a pod that does not fit": Event(_too_large),
    "smaller machine": Event(_smaller_machine, Capability.REBOOT),
}

#: Events after which the node no longer has the settings and the machine of its row.
LASTING: Final = ("options off", "smaller machine")


def _first_goes(draft: Draft) -> bool:
    return bool(draft.first) and draft.take(Delete(draft.first), Apply(guaranteed("next", 2)))


def _shared_pods(draft: Draft) -> bool:
    return draft.take(Apply(burstable("shared", request="500m")), Apply(best_effort("idle")))


def _large_and_small(draft: Draft) -> bool:
    fraction = Pod("fraction", (Container("app1", "1500m", "1500m", "32Mi", "32Mi"),))
    half = max(draft.room.free // 2, 1)
    return (
        draft.another("large", half) and draft.another("small", 1) and draft.take(Apply(fraction))
    )


def _the_rest(draft: Draft) -> bool:
    """A shared pod that requests all that is left, and one for which nothing is left."""
    left = _left(draft)
    rest, more = burstable("rest", request=f"{left}m"), burstable("more", request="1m")
    return left > 0 and draft.take(Apply(rest), Apply(more))


THEN: Final[dict[str, Event]] = {
    _NOTHING: Event(_nothing),
    "another pod": Event(lambda draft: draft.another("next", 2)),
    "the same again": Event(lambda draft: draft.take(Apply(_second(draft)))),
    "a shared pod": Event(_shared_pods),
    "restart": Event(lambda draft: draft.restart(), Capability.RESTART),
    "delete": Event(lambda draft: draft.runs(_own(draft).name) and _delete(draft)),
    "reconcile": Event(lambda draft: draft.take(AwaitReconcile())),
    "kill a container": Event(_kill, Capability.CONTAINERS),
    "kill a container on another pool": Event(_kill_on_another_pool, Capability.CONTAINERS),
    "first pod goes": Event(_first_goes),
    "pods large and small": Event(_large_and_small),
    "shared pods of the rest": Event(_the_rest),
}


def _restart_at_last(draft: Draft, *, kill: bool) -> bool:
    return draft.view.running and draft.restart(kill=kill)


FINALLY: Final[dict[str, Event]] = {
    _NOTHING: Event(_nothing),
    "restart": Event(partial(_restart_at_last, kill=False), Capability.RESTART),
    "kill": Event(partial(_restart_at_last, kill=True), Capability.RESTART),
    "every pod goes": Event(lambda draft: draft.take(*map(Delete, list(draft.node.granted)))),
}
