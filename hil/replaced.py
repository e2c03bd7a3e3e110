"""Another kubelet's program in place of a node's own, for a while.

What belongs here: whether a node's program can be replaced and by which, how another one is brought
to the node, and the subject that it is from then on. What never does: how a program is put in place
and back (``node.sh``), and what is done with the node meanwhile
(:func:`conformance.upgrading.rehearse`).

    with closing(NodeSubject.open("lab.toml#node7")) as nodes:
        rehearse(nodes, brought(nodes, chosen("1.37", nodes)), plan)

The program lies below the journal's folder until it is put in place, so that it is removed with
that folder, whenever the run dies.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Final

from conformance.kept_files import FILES, STATE
from conformance.kubelets import builder
from conformance.kubelets.binary import (
    architecture_of_program,
    digest_of,
    program_at,
    version_in,
    version_of,
)
from conformance.kubelets.releases import OLDEST
from conformance.subject import (
    Capability,
    NodeUnderTest,
    Subject,
    SubjectInfo,
    SubjectSetupError,
    SubjectUsageError,
    TakesOver,
)
from hil.distributions import distribution_of
from hil.inspection import NodeFacts, released
from hil.safety import InstallFile, KeepFile, Risk
from hil.safety.agent import PLACE
from hil.safety.guards import foreign
from hil.session.node import RealNode
from hil.shell import NodeError, NodeUnfit, Shell
from hil.subject import NodeSubject
from reference.steps import KubeletConfig
from topologies import Machine

#: Where the program lies on the node until it is put in place.
STAGED: Final = f"{PLACE}/kubelet"
#: Distributions that install their kubelet themselves, and by what.
_OWNED: Final[Mapping[str, str]] = {
    "openshift": "the Machine Config Operator, on a read-only /usr",
    "rke2": "RKE2, which unpacks its own",
    "k0s": "k0s, which unpacks its own at each start",
}
#: Seconds in which a program has to arrive, and in which it has to say its version.
_ARRIVES, _SAYS = 900.0, 60.0
#: The shell's status for a program that the file system does not let it execute.
_NO_EXECUTION: Final = 126


@dataclass(frozen=True, slots=True)
class Program:
    """A kubelet on the runner, as it was ``named``."""

    named: str
    path: Path
    digest: str


def chosen(
    target: str, nodes: NodeSubject, progress: Callable[[str], None] = lambda stage: None
) -> Program:
    """The kubelet that ``target`` names (a release, which is built where it has not been yet, or a
    program's path), if the one node can have it in place of its own. Reads only.

    Raises :class:`SubjectUsageError` where it cannot: the node's kubelet is no file of its own or
    cannot be written, the permitted risk is too low, the program is no kubelet, is built for
    another architecture, or is what the node runs.
    """
    reached = nodes.sole()
    facts, kubelet = reached.facts, released(reached.facts)
    named = target.removeprefix("kubelet:")
    if not builder.is_release(named):
        program_at(named)
    if Capability.RESTART not in nodes.capabilities:
        raise SubjectUsageError(
            f"{facts.name}: replacing its kubelet needs --max-risk {Risk.KUBELET_RESTART.value}"
        )
    if why := _why_fixed(facts) or _why_fixed_on(reached.shell, facts):
        raise SubjectUsageError(f"{facts.name}: its kubelet cannot be replaced: {why}")
    path = builder.program_of(named, progress)
    built_for = architecture_of_program(path)
    if not facts.arch.startswith(built_for):
        raise SubjectUsageError(
            f"{path}: it is built for {built_for}; {facts.name} is {facts.arch}"
        )
    if built_for in ("", platform.machine()):
        version_of(path)
    digest = digest_of(path)
    if digest == kubelet.digest:
        raise SubjectUsageError(f"{path} is the kubelet that {facts.name} runs ({kubelet.version})")
    return Program(named, path, digest)


def brought(
    nodes: NodeSubject, program: Program, progress: Callable[[str], None] = lambda stage: None
) -> ReplacedKubelet:
    """Take the node, and bring the program there; it is put in place later. Raises
    :class:`SubjectUsageError` where the node cannot run it, and :class:`SubjectSetupError`."""
    reached, taken = nodes.sole(), nodes.taken()
    facts = reached.facts
    progress(f"bringing {program.named} to {facts.name}")
    try:
        answer = _send_program(reached.shell, facts, program)
        # The node's own kubelet has to find its files again, whatever the other one wrote.
        if not foreign(facts):  # pods of others change these files
            folder = taken.session.places.root_dir
            kept = (KeepFile(f"{folder}/{name}") for name in FILES if name != STATE)
            taken.guarded.change(*kept)
    except NodeError as error:
        raise SubjectSetupError(str(error), evidence=error.evidence) from error
    version, text = version_in(answer, program.path)
    if version.release < OLDEST:
        raise SubjectUsageError(f"{program.path} is a kubelet {text}: older than {OLDEST}")
    info = SubjectInfo(
        f"kubelet:{program.named}", str(version.release), text, program.digest, nodes.info.facts
    )
    return ReplacedKubelet(info, nodes)


class ReplacedKubelet(Subject, TakesOver):
    """A kubelet that lies on the one node of ``nodes``, and takes over there
    (:class:`conformance.subject.TakesOver`)."""

    def __init__(self, info: SubjectInfo, nodes: NodeSubject) -> None:
        self.info = info
        self.capabilities = nodes.capabilities
        self._nodes = nodes

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> NodeUnderTest:
        """It begins no node. Raises :class:`SubjectUsageError`."""
        raise SubjectUsageError(f"{self.info.name} takes over a node that has a kubelet")

    def take_over(self, node: NodeUnderTest) -> None:
        if not isinstance(node, RealNode):
            raise SubjectUsageError(f"{self.info.name} continues only on a node of its own")
        facts = node.session.facts
        root = facts.root.rstrip("/")
        change = InstallFile(released(facts).binary, f"{root}{STAGED}")
        node.take_program(change, self.info.release)

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        return self._nodes.kept_files(node)

    def keep_files(self, node: NodeUnderTest, files: Mapping[str, str]) -> None:
        """A real node has its own."""

    def close(self) -> None:
        """The node's subject takes the program away with everything else."""


def _why_fixed(facts: NodeFacts) -> str:
    """Why the node's kubelet cannot be another program, as far as facts tell; ``""``: it can."""
    kubelet = released(facts)
    distribution = distribution_of(facts).name
    if owner := _OWNED.get(distribution, ""):
        return f"it belongs to {owner}"
    if kubelet.embedded or not PurePosixPath(kubelet.binary).name.startswith("kubelet"):
        return f"it lives inside of {kubelet.binary or distribution}"
    if kubelet.binary.startswith("/snap/"):
        return f"{kubelet.binary} belongs to a snap, which is read-only"
    if not facts.systemd or not kubelet.unit:
        return "it is not a systemd service"
    return ""


def _why_fixed_on(shell: Shell, facts: NodeFacts) -> str:
    """The same, as the node says; raises :class:`SubjectSetupError` where it does not answer."""
    kubelet = released(facts)
    root = facts.root.rstrip("/")
    path, mounts = f"{root}{kubelet.binary}", f"{root}/proc/mounts"
    process = kubelet.process.pid if kubelet.process else ""
    script = f"""p={quote(path)} q=/proc/{process}/exe m={quote(mounts)}
[ -r "$m" ] || m=/proc/mounts
[ -f "$p" ] || {{ echo "is not a file of the node itself"; exit; }}
[ ! -e "$q" ] || [ "$q" -ef "$p" ] ||
  {{ echo "is not the program that runs: that was replaced, or is in a container"; exit; }}
r=$(readlink -f "$p") && p=$r
[ -w "${{p%/*}}" ] && awk -v p="$p" '
  {{ m = $2 == "/" ? "" : $2 }}
  p == m {{ own = 1 }}
  index(p, m "/") == 1 && length(m) >= n {{ n = length(m); ro = index("," $4 ",", ",ro,") }}
  END {{ exit own || ro }}' "$m" || echo "is read-only, or a mount of its own"
"""
    try:
        said = shell.run(script).text.strip()
    except NodeError as error:
        raise SubjectSetupError(str(error), evidence=error.evidence) from error
    return f"{kubelet.binary} {said}" if said else ""


def _send_program(shell: Shell, facts: NodeFacts, program: Program) -> str:
    """What the program answers to ``--version`` on the node, once it is there. Raises
    :class:`hil.shell.NodeError`."""
    place = quote(f"{facts.root.rstrip('/')}{STAGED}")
    where = f"{facts.name}: {program.path} does not arrive"
    done = shell.run(
        f"cat >{place} && chmod 755 {place} && sha256sum <{place}",
        stdin=program.path.read_bytes(),
        deadline=_ARRIVES,
    )
    if done.status != 0:
        said = done.stderr.decode(errors="replace")
        raise NodeUnfit(f"{where}: is the disk full?", evidence=said)
    if f"sha256:{done.text.split()[0]}" != program.digest:
        raise NodeUnfit(f"{where} as it is")
    asked = shell.run(f"{place} --version 2>&1", deadline=_SAYS, limit=1 << 16)
    if asked.status != _NO_EXECUTION:
        return asked.text
    # The node executes nothing below /var; where its kubelet lies, it does.
    return f"Kubernetes {version_of(program.path)[1]}\n"
