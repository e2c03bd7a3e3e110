"""A dry run of a node whose pods come through an API server: nobody is asked, neither is it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.judge import Case
from hil import subject as hil_subject
from hil.dry_run import DryRunSubject, Ledger, walk
from hil.inspection import NodeFacts
from hil.pods import Image
from hil.safety import Allow, Risk
from hil.shell import DEADLINE, LIMIT, Done
from hil.transport import NodeAddress


class NoShell:
    """Nothing may be sent through it."""

    name = "fake"
    trips = 0

    def run(
        self, script: str, *, stdin: bytes = b"", deadline: float = DEADLINE, limit: int = LIMIT
    ) -> Done:
        raise AssertionError(f"sent: {script}")

    def close(self) -> None:
        return


def test_requests_are_told_beside_commands(facts: NodeFacts) -> None:
    """Every scenario is walked to its end; no manifest is written on the node."""
    address = NodeAddress(
        "fake", "local:", kubeconfig=Path("/absent"), node="n7", allow=frozenset(Allow)
    )
    lines: list[str] = []
    options = hil_subject.Options(Risk.REBOOT, Image("busybox"))
    reached = hil_subject._Reached(address, NoShell(), facts)
    subject = DryRunSubject("fake", [reached], options)
    subject.ledger = Ledger(lines.append)
    (machine,) = subject.machines
    cases = [Case(one, machine) for one in catalogue() if not one.machine]
    assert walk(cases, subject, subject.ledger) > 30
    subject.close()
    scripts = [one.script for one in subject.ledger.commands]
    requests = [one for one in scripts if one.startswith("# beside the runner, to the API server:")]
    assert requests[0].endswith("read node n7; remove namespaces labelled pinproof/node=n7")
    assert requests[-1].endswith("remove namespace pinproof-MADE-UP with everything in it")
    assert any('create pod {"apiVersion"' in one and '"nodeName":"n7"' in one for one in requests)
    assert any(one.endswith("with grace 0") for one in requests)
    assert not any("/etc/kubernetes/manifests" in line for line in lines if "change:" in line)
    assert not any("not simulated to its end" in line for line in lines)


def test_the_option_of_the_command_line() -> None:
    """It is said of every node."""
    _, _, options = hil_subject.parse_target("lab.toml?kubeconfig=%2Fa%20b")
    assert options.kubeconfig == Path("/a b")
    assert options.applied(NodeAddress("a", "local:")).kubeconfig == Path("/a b")
    assert hil_subject.Options().applied(NodeAddress("a", "local:")).kubeconfig is None


@pytest.mark.parametrize("server", [True, False])
def test_a_server_tells_of_rejections(facts: NodeFacts, server: bool) -> None:
    """Though the kubelet lists its pods to nobody."""
    from conformance.subject import Capability

    can = hil_subject.capabilities(facts, Risk.PODS, boots=False, server=server)
    assert (Capability.REJECTIONS in can) is server
