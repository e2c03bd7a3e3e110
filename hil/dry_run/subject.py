"""Real nodes that are reached and read; what a run would send to them is entered in a ledger."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.verdict import Verdict
from hil.distributions import distribution_of
from hil.dry_run.ledger import Ledger
from hil.dry_run.node import DryRunNode, DryRunSession
from hil.dry_run.shell import DryRunExecutor, DryRunShell
from hil.inspection import NodeFacts
from hil.pods import Image, PodSource
from hil.pods.manifests import manifest
from hil.safety import Guarded, risk_of
from hil.session.booting import Boot, booter
from hil.session.executor import GuardedExecutor
from hil.session.leasing import LeasedNode, claim
from hil.session.node_session import NodeSession
from hil.shell import Shell
from hil.subject import NodeSubject
from hil.transport import NodeAddress
from reference.steps import Pod
from topologies import Machine


class DryRunSubject(NodeSubject):
    """:class:`hil.subject.NodeSubject` that changes nothing; ``ledger`` gets every command."""

    def __init__(self, *words: Any, **named: Any) -> None:
        """As :class:`hil.subject.NodeSubject`."""
        super().__init__(*words, **named)
        self.ledger = Ledger()

    @classmethod
    def opened(
        cls,
        target: str,
        ledger: Ledger,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> DryRunSubject:
        """Reach every node that ``target`` names, and read what it is. Raises as
        :meth:`hil.subject.NodeSubject.open`."""
        subject = cls.open(target, progress)
        assert isinstance(subject, DryRunSubject)
        subject.ledger = ledger
        return subject

    def _real_node(
        self, session: NodeSession, machine: Machine, *words: Any, **named: Any
    ) -> DryRunNode:
        assert isinstance(session, DryRunSession)
        return DryRunNode(session, *words, machine=machine, **named)

    def _lease(self, address: NodeAddress, shell: Shell, facts: NodeFacts) -> LeasedNode:
        """As :func:`hil.session.leasing.lease_node`: enter how a node is leased. ``shell`` runs
        nothing. Raises :class:`hil.shell.NodeUnfit` for a node that a run would refuse."""
        ledger, options = self.ledger, self._options
        risk, image = options.risk_on(address), options.image_on(address)
        silent = DryRunShell(facts.name, ledger)
        before = ledger.scenario, ledger.step
        ledger.scenario, ledger.step = "", "lease the node: lease, journal, dead-man timer"
        static = address.kubeconfig is None
        guarded = Guarded(silent, facts, risk, "dry-run", allow=address.allow, static_pods=static)
        with contextlib.ExitStack() as stack:
            stack.enter_context(guarded)
            ledger.scenario, ledger.step = before
            pod_source = _pod_source(address, facts, image, silent)
            if pod_source is not None:
                claim(guarded, pod_source)
            session = DryRunSession(
                address.name,
                facts,
                distribution_of(facts),
                executor=DryRunExecutor(GuardedExecutor(silent, guarded), silent),
                ledger=ledger,
                risk=risk,
                image=image,
                pod_source=pod_source,
                boot=_boot(address, shell, silent),
                spec=address.lab,
            )
            stack.pop_all()
        return LeasedNode(session, guarded)

    @property
    def trips(self) -> dict[str, tuple[int, int]]:
        """None were made."""
        return {}

    def _restoring(self, name: str) -> None:
        self.ledger.scenario, self.ledger.step = "", "restore the node and end the lease"


#: Marks a request to the API server among the commands to the node.
_BESIDE: Final = "# beside the runner, to the API server:"


class DryRunPods(PodSource):
    """Pods through an API server, whose requests are entered in a ledger. Pods keep the uids that
    they were stated with, where a server would give others."""

    static = False

    def __init__(self, shell: DryRunShell, node: str, namespace: str, image: Image) -> None:
        self._shell = shell
        self._node = node
        self.namespace = namespace
        self._image = image
        self._closed = False
        self._enter(f"read node {node}; remove namespaces labelled pinproof/node={node}")
        self._enter(f"create namespace {namespace} and service account {namespace}/pinproof")

    def _enter(self, what: str) -> None:
        self._shell.run(f"{_BESIDE} {what}")

    def create(self, pod: Pod) -> tuple[Pod, tuple[()]]:
        body = manifest(pod, self._image, node_name=self._node, namespace=self.namespace)
        self._enter(f"create pod {json.dumps(body, separators=(',', ':'))}")
        return pod, ()

    def delete(self, pod: Pod, *, force: bool) -> tuple[()]:
        grace = " with grace 0" if force else ""
        self._enter(f"delete pod {self.namespace}/pinproof-{pod.name}{grace}")
        return ()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._enter(f"remove namespace {self.namespace} with everything in it")


def _pod_source(
    address: NodeAddress, facts: NodeFacts, image: Image, silent: DryRunShell
) -> PodSource | None:
    if address.kubeconfig is None:
        return None
    from hil.pods.apiserver import node_name

    space = address.namespace or "pinproof-made-up"
    return DryRunPods(silent, node_name(address.node, facts), space, image)


def _boot(address: NodeAddress, shell: Shell, silent: DryRunShell) -> Boot | None:
    if booter(address, shell) is None:
        return None

    def boot(machine: str) -> None:
        if address.lab:
            silent.run(f"# beside the runner: pinproof lab reboot {address.name} {machine}".strip())
        else:
            silent.run("systemctl reboot --no-block")

    return boot


def walk(cases: Iterable[Case], subject: DryRunSubject, ledger: Ledger) -> int:
    """Show what each scenario would send. One that does not apply, or is not allowed, is shown with
    its reason; so is one that could not be walked to its end. Returns how many would be run."""
    walked, release = 0, subject.info.release
    oracle = partial(ModelOracle, release=release)
    for case in cases:
        ledger.scenario = case.scenario.id
        ledger.risk = risk_of(case.scenario.capabilities).value
        ledger.step = "before its first step"
        result = judge(case, subject, oracle=oracle, release=release).result
        if result.verdict == Verdict.SKIP.value:
            ledger.skipped(result.reason)
            continue
        walked += 1
        if result.verdict != Verdict.PASS.value:
            ledger.note(f"not simulated to its end: {result.reason}")
    ledger.scenario = ledger.risk = ""
    return walked
