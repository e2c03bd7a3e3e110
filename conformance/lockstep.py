"""The node that scenarios drive: a subject and an oracle, one step at a time.

After every step the subject's settled view is compared with the oracle's and with the invariants;
the first difference ends the scenario. What the scenario itself promises, it states through
:meth:`LockstepNode.promise`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NoReturn, Protocol
from uuid import NAMESPACE_OID, uuid5

import topologies
from conformance.checks import (
    Situation,
    Violation,
    cpu_difference,
    differences,
    kubelet_text,
    told_difference,
    violations,
)
from conformance.describe import config_text, step_text, topology_text
from conformance.discovered import architecture_of, first_core, info_of, topology_of
from conformance.oracle import Oracle
from conformance.pods import best_effort
from conformance.results import Difference, Failure, Holding, MachineRecord
from conformance.subject import (
    HasLargerMachines,
    HasOwnConfig,
    HasSalt,
    NodeUnderTest,
    Subject,
    SubjectLostError,
    SubjectUnable,
)
from conformance.waiting import ENOUGH, SHORT, Waiting
from reference import CPUSet, CPUTopology, NotModelled
from reference.behaviours import Behaviour
from reference.kubelet.configuration import reserved_cpus, reserving
from reference.releases import has
from reference.steps import (
    Apply,
    AskPodResources,
    AwaitCrashLoop,
    AwaitReconcile,
    Configure,
    DaemonReload,
    Delete,
    KillContainer,
    KubeletConfig,
    OfflineCPUs,
    OnlineCPUs,
    Pod,
    Reboot,
    RemoveState,
    RestartRuntime,
    Spin,
    Start,
    Step,
    Stop,
    Tamper,
    TamperQuota,
    WriteState,
)
from reference.view import Enforced, Phase, PodView, View
from topologies import Machine

NODE_DOWN: Final = View(running=False)

#: How many seconds a pod stays pending until a kubelet of which the model says that it hangs is
#: taken to hang. A kubelet takes a pod up within 1.1 s. Nobody is accused by this alone.
_HANG_SHOWS: Final = 5.0


class Divergence(Exception):
    """The subject broke a promise, an invariant, or is not as the oracle says."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.rule)
        self.failure = failure


class CouldNotTell(Exception):
    """Nothing can be said: ``str()`` is one line, ``evidence`` may be many."""

    def __init__(self, reason: str, *, evidence: str = "") -> None:
        super().__init__(reason)
        self.evidence = evidence


class OracleMaker(Protocol):
    """Makes the oracle for a node."""

    def __call__(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> Oracle:
        """The oracle that walks with a node on ``machine``."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One step and the settled view after it: what a recording is made of."""

    step: str
    view: View


class LockstepNode:
    """A node under test beside its oracle.

    ``view`` is what was last seen; ``topology`` is the machine's, as the model discovers it;
    ``steps`` are the steps so far, in words; ``history`` has the view after each. ``by_chance``:
    somewhere chance decided, and otherwise than the oracle had it.
    """

    def __init__(
        self,
        subject: Subject,
        machine: Machine,
        *,
        oracle: OracleMaker,
        release: str,
        waiting: Waiting | None = None,
    ) -> None:
        self._waiting = waiting or Waiting()
        self._waited = ""
        self.machine = machine
        self.release = release
        self._architecture = architecture_of(subject.info)
        self.topology = self._topology_of(machine)
        self.view = NODE_DOWN
        self.steps: list[str] = []
        self.history: list[Seen] = []
        self.kubelet_errors: list[str] = []
        self.witness = ""
        self.by_chance = False
        self._subject = subject
        self.config = self.default_config()
        self.online = self.cpus
        self._next_topology: CPUTopology | None = None
        self._salt = subject.salt() if isinstance(subject, HasSalt) else ""
        self._make_oracle = oracle
        self._oracle: Oracle | None = None
        self._node: NodeUnderTest | None = None
        self._pods: dict[str, Pod] = {}
        self._tampered: set[tuple[str, str]] = set()
        self._lost = CPUSet()
        self._known_broken: set[str] = set()
        self._may_hang = False
        self._adrift = False
        self._derived: dict[str, Machine] = {machine.name: machine}
        self._first = machine.name

    # ---- what a scenario reads ------------------------------------------------------------

    @property
    def cpus(self) -> CPUSet:
        """All CPUs that the kubelet finds on the machine."""
        return CPUSet(self.topology.details)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """The ids of the NUMA nodes that the Topology Manager counts, those without CPUs too."""
        tree, built_for = self.machine.tree, self._architecture
        return info_of(tree, release=self.release, architecture=built_for).numa_node_ids

    @property
    def reservable(self) -> CPUSet:
        """The CPUs that the release lets one reserve by list: up to 1.21, only those with ids lower
        than the number of CPUs."""
        if self.release_has(Behaviour.RESERVED_CPUS_ARE_ONLINE):
            return self.cpus
        return self.cpus & CPUSet(range(len(self.cpus)))

    @property
    def reserved(self) -> CPUSet:
        """The CPUs reserved by list; empty where only their number is configured. Up to 1.16, where
        nothing but a number can be, those that the kubelet chooses for it."""
        return reserved_cpus(self.topology, self.config, release=self.release) or CPUSet()

    @property
    def free(self) -> CPUSet:
        """The CPUs that may still become exclusive: shared pool without the reserved ones."""
        return self.view.shared_pool - self.reserved

    def taken(self, pod: str, container: str = "c") -> CPUSet:
        """A container's exclusive CPUs; empty if it has none."""
        return self.view.assignments.get(pod, {}).get(container, CPUSet())

    def cpuset(self, pod: str, container: str = "c") -> CPUSet:
        """The cpuset of a running container; empty where it runs without one or not at all."""
        return self.view.cpusets.get(pod, {}).get(container) or CPUSet()

    def enforced(self, pod: str, container: str = "c") -> Enforced:
        """What the kernel makes of a running container; nothing where none runs."""
        return self.view.enforced.get(pod, {}).get(container, Enforced(CPUSet(), CPUSet()))

    @property
    def hangs(self) -> bool:
        """Whether the kubelet hangs, as the scenario has said it may (:meth:`expect_hang`)."""
        return bool(self.view.hangs)

    def told(self, pod: str, container: str = "c") -> CPUSet | None:
        """The CPUs of a container that the kubelet told of when it was just asked; empty where it
        told of the container and of no CPU, ``None`` where it has no entry for it."""
        return (self.view.told or {}).get(pod, {}).get(container)

    def release_has(self, behaviour: Behaviour) -> bool:
        """Whether the release by which the node is judged has a named behaviour."""
        return has(self.release, behaviour)

    def default_config(self) -> KubeletConfig:
        """The subject's own configuration where it has one (a node in use has); else policy static,
        with the whole physical core of the lowest CPU reserved, or up to 1.16 as many CPUs."""
        if isinstance(self._subject, HasOwnConfig):
            own = self._subject.own_config(self.machine.name)
            if own is not None:
                return own
        core = first_core(self.topology)
        return reserving(core & self.reservable, release=self.release)

    # ---- steps ----------------------------------------------------------------------------

    def boot(self, config: KubeletConfig | None = None, *, machine: Machine | None = None) -> View:
        """Make the node with this configuration (default: :meth:`default_config`), perhaps on a
        variant of the machine, and start the kubelet. It may refuse: that shows in the view."""
        if machine is not None:
            self._move_to(machine)
        self.config = config or self.config
        self._oracle = self._make_oracle(self.machine, self.config, machines=self.find_machine)
        self.witness = self._oracle.name
        self._node = self._subject.node(self.machine, self.config, machines=self.find_machine)
        self.steps.append(f"on {self.machine.name}, with {config_text(self.config)}")
        return self._take(Start())

    def start(self) -> View:
        """Start the kubelet again."""
        return self._take(Start())

    def stop(self) -> View:
        """Stop the kubelet with SIGTERM."""
        return self._take(Stop())

    def kill(self) -> View:
        """Stop the kubelet with SIGKILL."""
        return self._take(Stop(kill=True))

    def apply(self, pod: Pod) -> PodView:
        """Apply a pod; what became of it. A subject whose kubelet remembers pods of earlier
        scenarios gives a salt, so that the uid is one that this kubelet has never seen."""
        if self._salt:
            pod = replace(pod, uid=str(uuid5(NAMESPACE_OID, f"{self._salt}/{pod.uid}")))
        view = self._take(Apply(pod))
        return view.pods.get(pod.name, PodView(Phase.PENDING))

    def delete(self, pod: str, *, force: bool = False) -> View:
        """Delete a pod, perhaps by force, and see its CPUs return."""
        return self._take(Delete(pod, force))

    def reboot(self, machine: Machine | None = None) -> View:
        """Boot the machine again, perhaps as another one; the kubelet is down."""
        if machine is not None:
            self._move_to(machine)
        return self._take(Reboot(machine.name if machine else ""))

    def configure(self, config: KubeletConfig) -> View:
        """Give the stopped kubelet another configuration."""
        self.config = config
        return self._take(Configure(config))

    def remove_state(self) -> View:
        """Remove the state file of the stopped kubelet."""
        return self._take(RemoveState())

    def write_state(self, text: str) -> View:
        """Replace the state file of the stopped kubelet."""
        return self._take(WriteState(text))

    def tamper(self, pod: str, container: str, cpus: CPUSet) -> View:
        """Change a running container's cpuset behind the kubelet's back."""
        self._tampered.add((pod, container))
        return self._take(Tamper(pod, container, cpus))

    def pass_admission(self) -> View:
        """Admit a BestEffort pod more, where the release needs that to see the last one go: from
        1.22 to 1.31 the pod admitted last counts as active until another is admitted."""
        if self.release_has(Behaviour.LAST_ADMITTED_STAYS):
            self.apply(best_effort("passing"))
        return self.view

    def await_reconcile(self) -> View:
        """Wait for a whole reconcile round."""
        return self._take(AwaitReconcile())

    def offline(self, cpus: CPUSet) -> View:
        """Take CPUs offline. Only a kubelet that starts later finds another machine."""
        return self._switch(OfflineCPUs, cpus, self.online - cpus)

    def online_again(self, cpus: CPUSet) -> View:
        """Bring CPUs back that were taken offline."""
        return self._switch(OnlineCPUs, cpus, self.online | cpus)

    def _switch(
        self, step: type[OfflineCPUs] | type[OnlineCPUs], cpus: CPUSet, online: CPUSet
    ) -> View:
        whole = self._derived[self._first]
        gone = CPUSet(self._topology_of(whole).details) - online
        machine = topologies.offline(whole, gone) if gone else whole
        self._derived[machine.name] = self.machine = machine
        self._next_topology = self._topology_of(machine)
        self.online = online
        return self._take(step(cpus, machine.name))

    def tamper_quota(self, pod: str, container: str, quota: int) -> View:
        """Change a running container's CFS quota behind the kubelet's back."""
        return self._take(TamperQuota(pod, container, quota))

    def kill_container(self, pod: str, container: str = "c") -> View:
        """Kill a container, and see it started again."""
        return self._take(KillContainer(pod, container))

    def spin(self) -> View:
        """Let every container spin, and see where it runs."""
        return self._take(Spin())

    def ask_pod_resources(self) -> View:
        """Ask the kubelet at its pod-resources socket. Raises :class:`SubjectUnable` where it
        cannot be asked."""
        return self._take(AskPodResources())

    def restart_runtime(self) -> View:
        """Restart the container runtime."""
        return self._take(RestartRuntime())

    def daemon_reload(self) -> View:
        """Let the service manager read its units again."""
        return self._take(DaemonReload())

    def await_crash_loop(self) -> View:
        """Wait until the service manager has started the kubelet that gives up once more."""
        return self._take(AwaitCrashLoop())

    def larger(self) -> Machine:
        """A machine like this one with more CPUs, that the subject can boot its node as. Raises
        :class:`SubjectUnable` where there is none."""
        subject = self._subject
        found = subject.larger(self._first) if isinstance(subject, HasLargerMachines) else None
        if found is None:
            raise SubjectUnable("needs a node that can be booted with more CPUs")
        return found

    def find_machine(self, name: str) -> Machine:
        """A machine of this scenario, or of the catalogue."""
        return self._derived.get(name) or topologies.machine(name)

    def expect_lost(self, cpus: CPUSet) -> None:
        """Expect that nobody will hold these CPUs from here on, not even the shared pool: a known
        defect, that no invariant is to object to."""
        self._lost = cpus

    def expect_broken(self, *rules: str) -> None:
        """Do not object where these invariants are broken: a known defect, which the scenario and
        the model tell of themselves."""
        self._known_broken.update(rules)

    def expect_hang(self) -> None:
        """Do not object where the kubelet hangs from here on, if the model says that its release
        does: a known defect, which the scenario tells of. That it answers is no offence either;
        what it answers is then judged by the scenario's promises and the invariants."""
        self._may_hang = True

    # ---- promises -------------------------------------------------------------------------

    def promise(self, holds: bool, rule: str, *found: Difference) -> None:
        """State what is promised; ``found`` says what was expected and seen where it does not
        hold."""
        if not holds:
            self._diverge(rule, list(found), None)

    def promise_cpus(self, rule: str, what: str, expected: CPUSet, seen: CPUSet) -> None:
        """Promise that a set of CPUs is just this one."""
        self.promise(expected == seen, rule, cpu_difference(what, expected, seen))

    def promise_told(self, rule: str, pod: str, expected: CPUSet, container: str = "c") -> None:
        """Promise that the kubelet, just asked, told just these CPUs of a container; that it has
        an entry, where they are none."""
        seen = self.told(pod, container)
        self.promise(expected == seen, rule, told_difference(pod, container, expected, seen))

    def promise_equal(self, rule: str, what: str, expected: object, seen: object) -> None:
        """Promise that a value is just this one."""
        self.promise(
            expected == seen, rule, Difference(what=what, expected=str(expected), seen=str(seen))
        )

    def promise_refusal(self, *texts: str) -> None:
        """Promise that the kubelet did not start, and that its error has these texts in it."""
        view = self.view
        self.promise(
            not view.running,
            "The kubelet refuses to start",
            Difference(what="kubelet", expected="gives up", seen="runs"),
        )
        for text in texts:
            self.promise(
                text in view.error,
                "The kubelet's error says why",
                Difference(what="kubelet's error", expected=f"… {text} …", seen=view.error),
            )

    def promise_running(self, rule: str) -> None:
        """Promise that the kubelet runs."""
        seen = kubelet_text(self.view)
        self.promise(
            self.view.running, rule, Difference(what="kubelet", expected="runs", seen=seen)
        )

    # ---- inside ---------------------------------------------------------------------------

    def evidence(self) -> str:
        """The subject's log lines that matter."""
        return self._node.evidence() if self._node is not None else ""

    def close(self) -> None:
        """Close the node under test."""
        if self._node is not None:
            self._node.close()

    def totals(self) -> str:
        """The machine's size in words, and what it has become where it was changed."""
        text = topology_text(self.topology)
        return text if self.machine.name == self._first else f"by now {self.machine.name}, {text}"

    def _topology_of(self, machine: Machine) -> CPUTopology:
        return topology_of(machine, release=self.release, architecture=self._architecture)

    def _move_to(self, machine: Machine) -> None:
        self._derived[machine.name] = machine
        self.machine = machine
        self.topology = self._topology_of(machine)
        self._next_topology, self.online = None, self.cpus

    def _take(self, step: Step) -> View:
        if self._oracle is None or self._node is None:
            raise RuntimeError("a scenario boots its node first")
        self.steps.append(step_text(step))
        if isinstance(step, Apply):
            self._pods[step.pod.name] = step.pod
        if isinstance(step, Start) and self._next_topology is not None:
            self.topology, self._next_topology = self._next_topology, None
        expected = self._expected(self._oracle, step)
        try:
            self._node.do(step)
            seen = self._settle(self._node, step, expected)
            if expected is not None and expected.hangs:
                expected, seen = self._hanging(expected, seen)
            elif expected is not None and not seen.hangs and self._oracle.follow(seen, late=True):
                if differences(expected, seen, self._subject.capabilities):
                    self.by_chance = True
                expected = seen
        except SubjectLostError as error:
            raise CouldNotTell(str(error), evidence=error.evidence) from error
        self.view = seen
        self.history.append(Seen(self.steps[-1], seen))
        if isinstance(step, Start):
            self._started(seen)
        if seen.hangs:
            self._judge_hang(step, expected, seen)
        else:
            self._judge(step, expected, seen)
        return seen

    def _settle(self, node: NodeUnderTest, step: Step, expected: View | None) -> View:
        """Wait for what is expected; not as long as usual for what never came before."""
        began, name, short = time.monotonic(), type(step).__name__, False

        def done(view: View) -> bool:
            nonlocal short
            if self._settled(expected, view, began + _HANG_SHOWS):
                return True
            late = time.monotonic() >= began + SHORT
            short = late and self._waiting.is_known(name, self._owed(expected, view))
            return short

        seen = node.settle(done)
        self._waited = ""
        if short:
            self._waited = (
                f" (waited {SHORT:g} s: whole waits ended like this {ENOUGH} times before)"
            )
        elif time.monotonic() >= began + SHORT:
            self._waiting.note(name, self._owed(expected, seen))
        return seen

    def _owed(self, expected: View | None, seen: View) -> list[Difference]:
        """What keeps the node from being settled."""
        found = [one.difference for one in self._violations(seen)]
        if expected is not None and not expected.hangs:
            found += differences(expected, seen, self._subject.capabilities)
        return found

    def _expected(self, oracle: Oracle, step: Step) -> View | None:
        if self._adrift:
            return None
        try:
            return oracle.after(step)
        except NotModelled as error:
            raise CouldNotTell(f"the model does not know: {error}") from error

    def _hanging(self, expected: View, seen: View) -> tuple[View | None, View]:
        """What is expected where the model says that the kubelet hangs, and what was seen. Where
        the kubelet answers (a fork may carry the fix), the model has nothing more to say."""
        if seen.hangs:
            return expected, seen
        if _is_waiting(seen):
            return expected, replace(seen, hangs=f"a pod is pending for {_HANG_SHOWS:g} s")
        self._adrift = True
        self.witness = f"{self.witness} up to the step in which it hangs, then the promise alone"
        return None, seen

    def _started(self, seen: View) -> None:
        self._tampered.clear()  # the kubelet sends every container its cpuset anew
        if seen.error:
            self.kubelet_errors.append(f"exit status {seen.exit_status}: {seen.error}")

    def _settled(self, expected: View | None, seen: View, hang_shows: float) -> bool:
        if expected is not None and expected.hangs:
            late = time.monotonic() >= hang_shows
            return late if _is_waiting(seen) else late or not self._violations(seen)
        if (seen.enforced or seen.told) and self._violations(seen):
            # The kernel follows a changed cpuset or an offline CPU a little later; the kubelet's
            # own list of its pods follows the end of one.
            return False
        if expected is not None:
            return (
                expected == seen
                or not differences(expected, seen, self._subject.capabilities)
                or (self._oracle is not None and self._oracle.follow(seen, late=False))
            )
        return not _is_waiting(seen) and not self._violations(seen)

    def _judge_hang(self, step: Step, expected: View | None, seen: View) -> None:
        """A kubelet that hangs breaks any promise, but where the scenario tells of just that."""
        if self._may_hang and (expected is None or expected.hangs):
            return
        answers = "answers"
        if expected is not None and expected.hangs:
            answers = f"answers ({self.witness} hangs here as well: {expected.hangs})"
        rule = f"hang: the kubelet answers the step “{step_text(step)}” in time"
        found = Difference(what="kubelet", expected=answers, seen=f"hangs: {seen.hangs}")
        self._diverge(rule, [found], None)

    def _judge(self, step: Step, expected: View | None, seen: View) -> None:
        broken = self._violations(seen)
        found: list[Difference] = []
        if expected is not None:
            found = differences(expected, seen, self._subject.capabilities)
        if broken:
            self._diverge_from_rules(broken, found, expected)
        if found:
            rule = f"After the step “{step_text(step)}” the node is as {self.witness} has it"
            self._diverge(rule, found, expected)

    def _violations(self, seen: View) -> list[Violation]:
        found = violations(seen, self._situation())
        return [one for one in found if one.rule not in self._known_broken]

    def _diverge_from_rules(
        self, broken: list[Violation], found: list[Difference], expected: View | None
    ) -> NoReturn:
        rules = list(dict.fromkeys(one.rule for one in broken))
        self._diverge("; ".join(rules), [one.difference for one in broken] + found, expected)

    def _diverge(self, rule: str, found: list[Difference], expected: View | None) -> NoReturn:
        raise Divergence(
            Failure(
                rule=f"{rule}{self._waited}",
                differences=found,
                expected_holdings=holdings(expected, self.reserved) if expected else [],
                seen_holdings=holdings(self.view, self.reserved),
                machine=self._changed_machine(),
            )
        )

    def _changed_machine(self) -> MachineRecord | None:
        if self.machine.name == self._first:
            return None
        return machine_record(self.machine, self.topology)

    def _situation(self) -> Situation:
        return Situation(
            config=self.config,
            pods=self._pods,
            cpus=self.cpus,
            reserved=self.config.reserved_system_cpus,
            can=self._subject.capabilities,
            tampered=frozenset(self._tampered),
            lost=self._lost,
            release=self.release,
            online=self.online,
        )


def _is_waiting(view: View) -> bool:
    return any(pod.phase is Phase.PENDING for pod in view.pods.values())


def machine_record(machine: Machine, topology: CPUTopology | None) -> MachineRecord:
    """The machine as the result stream has it; without CPUs where they cannot be discovered."""
    return MachineRecord(
        name=machine.name,
        shape=machine.shape,
        digest=machine.digest,
        cpus=dict(topology.details) if topology else {},
    )


def holdings(view: View, reserved: CPUSet) -> list[Holding]:
    """Who holds which CPUs in a view, reserved CPUs and the rest of the shared pool last."""
    held = [
        Holding(owner=f"{pod}/{container}", cpus=str(cpus))
        for pod, containers in sorted(view.assignments.items())
        for container, cpus in sorted(containers.items())
    ]
    if reserved:
        held.append(Holding(owner="reserved", cpus=str(reserved)))
    held.append(Holding(owner="shared pool", cpus=str(view.shared_pool - reserved)))
    return held
