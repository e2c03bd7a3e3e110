"""The subject ``node:ssh://user@host`` or ``node:inventory.toml``.

What belongs here: which nodes a subject has, what it can do with them, and when they are taken and
given back. What never does: what is done to a node (:mod:`hil.session`).

    node:ssh://root@node7                      one node
    node:lab.toml                              every node of an inventory
    node:lab.toml#node7                        one of them
    node:lab.toml?max-risk=cpu-offline&image=registry.example/busybox:1

``max-risk`` is ``pods`` by default, and ``reboot`` on nodes of the lab, which are made to be
broken. Opening a subject only reads; a node is taken (lease, journal, dead-man timer) when its
first scenario begins, and given back, restored, when the subject is closed.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from conformance.handed_on import given, hand_on
from conformance.kept_files import FILES
from conformance.subject import (
    Capability,
    CouldDoMore,
    CountsTrips,
    HasLargerMachines,
    HasOwnConfig,
    HasOwnMachines,
    HasSalt,
    HasSmokeTest,
    KeepsMemoryManager,
    NodeUnderTest,
    Subject,
    SubjectError,
    SubjectInfo,
    SubjectNotRestored,
    SubjectSetupError,
    SubjectUnable,
    SubjectUsageError,
    TakesOver,
)
from hil.abilities import capabilities, unable
from hil.distributions import distribution_of
from hil.inspection import NodeFacts, gather, kubelet_of, released
from hil.lab.recipe import WORKLOAD_IMAGE
from hil.observation import Observation
from hil.pods import Image
from hil.safety import Change, LeaseLost, NotRestored, PutBack, Risk, refuse_if_held
from hil.safety.guarded import second_interrupt_tells
from hil.safety.guards import check_workloads
from hil.session.booting import may_boot
from hil.session.leasing import LeasedNode, lease_node
from hil.session.node import RealNode
from hil.session.node_session import NodeSession, salt
from hil.shell import NodeError, NodeUnfit, NodeUsageError, Shell
from hil.transport import NodeAddress, connect, nodes
from reference.steps import KubeletConfig
from topologies import Machine, whole

_OPTIONS: Final = ("max-risk", "image", "kubeconfig", "transport-image")


@dataclass(frozen=True, slots=True)
class Options:
    """What a user asks of a run on nodes. ``risk`` is ``None`` where none was given."""

    risk: Risk | None = None
    image: Image | None = None
    kubeconfig: Path | None = None
    transport_image: str = ""

    def applied(self, address: NodeAddress) -> NodeAddress:
        """The address, with these options."""
        return replace(
            address,
            kubeconfig=self.kubeconfig or address.kubeconfig,
            transport_image=self.transport_image or address.transport_image,
        )

    def risk_on(self, address: NodeAddress) -> Risk:
        """What may be done to this node."""
        if self.risk is not None:
            return self.risk
        return Risk.REBOOT if address.lab else Risk.PODS

    def image_on(self, address: NodeAddress) -> Image:
        """The image of containers there."""
        if self.image is not None:
            return self.image
        return Image(WORKLOAD_IMAGE) if address.lab else Image()


def parse_target(target: str) -> tuple[str, str, Options]:
    """(Inventory or address, name of one node or ``""``, options) of a subject's text.

    Raises :class:`SubjectUsageError`.
    """
    rest, _, query = target.partition("?")
    place, _, name = rest.partition("#")
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(given.keys() - set(_OPTIONS))
    if unknown:
        known = ", ".join(_OPTIONS)
        raise SubjectUsageError(
            f"node:{target}: unknown option {unknown[0]!r}: it is one of {known}"
        )
    if not place:
        raise SubjectUsageError("node: needs an address (ssh://root@node7) or an inventory")
    image = Image(given["image"]) if given.get("image") else None
    kubeconfig = Path(given["kubeconfig"]) if given.get("kubeconfig") else None
    transport = given.get("transport-image", "")
    return place, name, Options(_risk(given.get("max-risk", "")), image, kubeconfig, transport)


def _risk(text: str) -> Risk | None:
    if not text:
        return None
    try:
        return Risk(text)
    except ValueError:
        known = ", ".join(one.value for one in Risk)
        raise SubjectUsageError(f"max-risk {text!r}: it is one of {known}") from None


@dataclass(frozen=True, slots=True)
class _Reached:
    """A node that was reached, and what it is."""

    address: NodeAddress
    shell: Shell
    facts: NodeFacts


class NodeSubject(
    Subject,
    HasOwnMachines,
    HasOwnConfig,
    KeepsMemoryManager,
    HasSalt,
    HasLargerMachines,
    HasSmokeTest,
    CountsTrips,
    CouldDoMore,
    TakesOver,
):
    """Real nodes, all of one release."""

    def __init__(
        self,
        target: str,
        reached: Sequence[_Reached],
        options: Options,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> None:
        self._reached = {one.facts.name: one for one in reached}
        self._options = options
        self._progress = progress
        self._leased: dict[str, LeasedNode] = {}
        self._open: list[RealNode] = []
        self._closed = False
        self.machines: tuple[Machine, ...] = tuple(
            replace(one.facts.machine, name=one.facts.name) for one in reached
        )
        self.info = _info(target, [one.facts for one in reached])

        def able(least: Risk) -> frozenset[Capability]:
            each = (
                capabilities(
                    one.facts,
                    max(least, options.risk_on(one.address)),
                    boots=may_boot(one.address),
                    server=one.address.kubeconfig is not None,
                )
                for one in reached
            )
            return frozenset.intersection(*each)

        self.capabilities = able(Risk.READ_ONLY)
        #: As :class:`CouldDoMore` has it: the least risk that permits it.
        self.lacking: dict[Capability, str] = {}
        for risk in Risk:
            for one in able(risk) - self.capabilities - self.lacking.keys():
                self.lacking[one] = f"needs --max-risk {risk.value}"
        for reached_one in reached:
            # What no risk permits is listed with its reason.
            self.lacking |= unable(reached_one.facts)

    @classmethod
    def open(cls, target: str, progress: Callable[[str], None] = lambda stage: None) -> NodeSubject:
        """Reach every node that ``target`` names, and ask it what it is; nothing is changed.

        Raises :class:`SubjectUsageError` and :class:`SubjectSetupError`.
        """
        place, name, options = parse_target(target)
        try:
            addresses = [one for one in nodes(place) if name in ("", one.name)]
            if not addresses:
                raise SubjectUsageError(f"{place} has no node {name!r}")
            reached = [_reach(options.applied(one), progress) for one in addresses]
        except NodeUsageError as error:
            raise SubjectUsageError(str(error), evidence=error.evidence) from error
        except NodeError as error:
            raise SubjectSetupError(str(error), evidence=error.evidence) from error
        return cls(target, reached, options, progress)

    def own_config(self, machine: str) -> KubeletConfig | None:
        """The configuration of this node where it must stay as it is; ``None`` where scenarios may
        choose one."""
        reached = self._reached.get(machine)
        if reached is None:
            return None
        fixed = unable(reached.facts)
        may = self._options.risk_on(reached.address) >= Risk.KUBELET_RESTART
        return (
            None if may and Capability.CONFIGURE not in fixed else kubelet_of(reached.facts).config
        )

    def memory_manager_of(self, machine: str) -> KubeletConfig:
        """As the node's settings say; see :class:`conformance.subject.KeepsMemoryManager`."""
        reached = self._reached.get(machine)
        return KubeletConfig() if reached is None else kubelet_of(reached.facts).config

    def salt(self) -> str:
        """What makes the uids of one scenario's pods its own."""
        return salt()

    def larger(self, machine: str) -> Machine | None:
        """A machine that the lab can boot this node as, with more CPUs; ``None``: there is none."""
        reached = self._reached.get(machine)
        return None if reached is None else self._session(reached).larger()

    def take_over(self, node: NodeUnderTest) -> None:
        """Put the node's own kubelet back in place of another; see
        :class:`conformance.subject.TakesOver`."""
        if not isinstance(node, RealNode):
            raise SubjectUsageError(f"{self.info.name} continues only on nodes of its own")
        node.take_program(PutBack(kubelet_of(node.session.facts).binary), self.info.release)

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        assert isinstance(node, RealNode)
        return node.session.texts(FILES)

    def keep_files(self, node: NodeUnderTest, files: Mapping[str, str]) -> None:
        """A real node has its own."""

    def sole(self) -> _Reached:
        """The one node. Raises :class:`SubjectUsageError` where there are several."""
        if len(self._reached) > 1:
            names = ", ".join(self._reached)
            raise SubjectUsageError(f"{self.info.name} is several nodes, name one: {names}")
        return next(iter(self._reached.values()))

    def taken(self) -> LeasedNode:
        """The one node, leased until this is closed. Raises :class:`SubjectSetupError`."""
        reached = self.sole()
        self._session(reached)
        return self._leased[reached.facts.name]

    def smoke(self) -> None:
        """Check that every node is fit and free. It only reads, and is called once, so that a
        refusal is reported once. Raises :class:`SubjectSetupError`."""
        for one in self._reached.values():
            try:
                _require_fit(one.address, one.facts)
                check_workloads(
                    one.facts,
                    self._options.risk_on(one.address),
                    allow=one.address.allow,
                    static_pods=one.address.kubeconfig is None,
                )
                if one.facts.leftovers:
                    refuse_if_held(one.shell, root=one.facts.root)
            except NodeError as error:
                raise SubjectSetupError(str(error), evidence=error.evidence) from error

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> RealNode:
        """The node that is this machine; see :class:`conformance.subject.Subject`. Raises
        :class:`SubjectUnable` for any other machine."""
        name = machine.name
        reached = self._reached.get(name) or self._reached.get(whole(name))
        if reached is None:
            raise SubjectUnable(f"{machine.name} is not the machine of a node of {self.info.name}")
        session = self._session(reached)
        shaping = session.shaping(machine)
        fresh = None if shaping else session.fresh(config)
        if shaping:
            session.require_restarts()
        made = self._real_node(session, machine, config, fresh, machines=machines, shaping=shaping)
        self._open.append(made)
        return made

    def _real_node(
        self,
        session: NodeSession,
        machine: Machine,
        config: KubeletConfig,
        fresh: Observation | None,
        *,
        machines: Callable[[str], Machine],
        shaping: tuple[Change, ...],
    ) -> RealNode:
        """The node for one scenario, which begins on ``machine``."""
        return RealNode(session, config, fresh, machines=machines, shaping=shaping)

    def _session(self, reached: _Reached) -> NodeSession:
        name = reached.facts.name
        if name not in self._leased:
            try:
                _require_fit(reached.address, reached.facts)
                self._leased[name] = self._lease(reached.address, reached.shell, reached.facts)
            except NodeError as error:
                raise SubjectSetupError(str(error), evidence=error.evidence) from error
        return self._leased[name].session

    def _lease(self, address: NodeAddress, shell: Shell, facts: NodeFacts) -> LeasedNode:
        options = self._options
        return lease_node(
            address,
            shell,
            facts,
            risk=options.risk_on(address),
            image=options.image_on(address),
            say=self._progress,
        )

    @property
    def trips(self) -> dict[str, tuple[int, int]]:
        """(Scenarios, round trips) of every node that was taken."""
        return {
            name: (one.session.scenarios, one.session.trips) for name, one in self._leased.items()
        }

    def close(self) -> None:
        """Restore every node and close its connection. May be called twice. Raises
        :class:`SubjectNotRestored` after all of them were tried."""
        if self._closed:
            return
        self._closed = True
        manual = "; ".join(one.guarded.manual for one in self._leased.values())
        with second_interrupt_tells(manual, self._progress):
            failed = self._give_back()
        for reached in self._reached.values():
            reached.shell.close()
        if failed:
            raise SubjectNotRestored(
                "; ".join(map(str, failed)), evidence="\n".join(one.evidence for one in failed)
            )

    def _give_back(self) -> list[NotRestored]:
        """Restore every node; the errors of those that could not be restored."""
        failed: list[NotRestored] = []
        for made in self._open:
            with contextlib.suppress(SubjectError, NodeError):
                made.close()
        for name, taken in self._leased.items():
            self._restoring(name)
            try:
                taken.give_back()
            except NotRestored as error:
                failed.append(error)
            except LeaseLost:
                continue  # the node has restored itself, and its last scenarios said so
        return failed

    def _restoring(self, name: str) -> None:
        self._progress(f"restoring {name}")


def _reach(address: NodeAddress, progress: Callable[[str], None]) -> _Reached:
    progress(f"reaching {address.name}")
    shell = connect(address)
    try:
        facts = _facts(address, shell, progress)
        try:
            _require_fit(address, facts)
        except NodeUnfit:
            if facts.leftovers:  # another run may just be changing it
                refuse_if_held(shell, root=facts.root)
            raise
        return _Reached(address, shell, facts)
    except BaseException:
        shell.close()
        raise


def _facts(address: NodeAddress, shell: Shell, progress: Callable[[str], None]) -> NodeFacts:
    """The facts of a node, asked once a run, before its first scenario: later another worker may be
    changing the node's kubelet, or have left it changed."""
    name = f"{address.name} at {address.url}"
    if (known := given(name)) is not None:
        facts: NodeFacts = pickle.loads(known)  # noqa: S301 of our own, through our own pipe
        return facts
    progress(f"asking {address.name} what it is")
    facts = gather(shell, paths=address.kubelet)
    if facts.kubelet is not None and not facts.kubelet.release:
        # A busy node may not have had the time to say its version.
        facts = gather(shell, paths=address.kubelet)
    hand_on(name, pickle.dumps(facts))
    return facts


def _require_fit(address: NodeAddress, facts: NodeFacts) -> None:
    """Raise :class:`NodeUnfit` where no scenario can run."""
    kubelet_of(facts)
    if facts.cgroup.version not in (1, 2) or not facts.cgroup.cpuset:
        raise NodeUnfit(f"{facts.name}: no cgroup hierarchy with the cpuset controller is mounted")
    if not released(facts).manifests and address.kubeconfig is None:
        raise NodeUnfit(f"{facts.name}: its kubelet watches no folder of static pods")


def _info(target: str, facts: Sequence[NodeFacts]) -> SubjectInfo:
    kubelets = [kubelet_of(one) for one in facts]
    releases = {one.release for one in kubelets}
    if len(releases) > 1:
        each = ", ".join(f"{one.name} {kubelet_of(one).release}" for one in facts)
        raise SubjectUsageError(
            f"node:{target}: nodes of several releases cannot be judged as one: {each} "
            "(name one with #NAME)"
        )
    first = facts[0]
    return SubjectInfo(
        name=f"node:{target.partition('?')[0]}",
        release=kubelets[0].release,
        version=kubelets[0].version,
        digest=kubelets[0].digest if len({one.digest for one in kubelets}) == 1 else "",
        facts={
            "nodes": ", ".join(one.name for one in facts),
            "kernel": first.kernel,
            "cgroup": f"v{first.cgroup.version}, {first.cgroup.driver}",
            "runtime": f"{first.runtime.name} {first.runtime.version}".strip(),
            "distribution": distribution_of(first).name,
            "command line": first.command_line,
        },
    )
