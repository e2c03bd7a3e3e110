"""Dry runs: everything that a run would send is told, and nothing is sent."""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance.catalogue import catalogue, find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from hil import subject as hil_subject
from hil.distributions import distribution_of
from hil.dry_run import DryRunSubject, Ledger, walk
from hil.dry_run.assumed import Assumed
from hil.dry_run.node import DryRunSession
from hil.dry_run.shell import DryRunExecutor
from hil.inspection import NodeFacts
from hil.pods import Image
from hil.safety import Allow, Guarded, Risk
from hil.session.executor import GuardedExecutor
from hil.session.leasing import LeasedNode
from hil.shell import Done, Shell
from hil.transport import NodeAddress
from hil.transport.local import LocalShell
from pinproof.cli import app
from pinproof.dry_run import dry_run
from pinproof.pytest_arguments import SUITE
from tests.support.fakenode import CONFIG, FakeNode

ADDRESS = NodeAddress("fake", "local:", allow=frozenset(Allow))
CONFIG_PATH = "/var/lib/kubelet/config.yaml"
OPTIONS = hil_subject.Options(Risk.REBOOT, Image("busybox"))


class NoShell(LocalShell):
    """Nothing may be sent through it."""

    def run(self, script: str, **_: object) -> Done:
        raise AssertionError(f"sent: {script}")


@pytest.fixture(autouse=True)
def _salt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uids are others in each run; here they are not."""
    monkeypatch.setattr(hil_subject, "salt", lambda: "salt")


def cases(subject: DryRunSubject, *ids: str) -> list[Case]:
    chosen = [find(one) for one in ids] if ids else catalogue()
    (machine,) = subject.machines
    return [Case(one, machine) for one in chosen if one is not None and not one.machine]


def walked(facts: NodeFacts, *ids: str, address: NodeAddress = ADDRESS) -> tuple[Ledger, list[str]]:
    lines: list[str] = []
    ledger = Ledger(lines.append)
    reached = hil_subject._Reached(address, NoShell("fake"), facts)
    with contextlib.closing(DryRunSubject("fake", [reached], OPTIONS)) as subject:
        subject.ledger = ledger
        walk(cases(subject, *ids), subject, ledger)
    return ledger, lines


@pytest.fixture
def facts(fake: FakeNode) -> NodeFacts:
    """Of a kubelet that lists its pods, so that more scenarios apply."""
    fake.file(CONFIG_PATH, f"{CONFIG}readOnlyPort: 10255\n", 0o600)
    return fake.facts()


class RecordingShell(LocalShell):
    """On a fake node: what guards it is run, so that its files do change and come back; what would
    act on a kubelet, a runtime and cgroups is only recorded."""

    def __init__(self, fake: FakeNode) -> None:
        super().__init__("fake", environment=fake.environment)
        self.sent: list[tuple[str, bytes]] = []

    def run(self, script: str, *, stdin: bytes = b"", **bounds: Any) -> Done:
        # What the thread that renews the lease sends is not in a dry run.
        if threading.current_thread() is threading.main_thread():
            self.sent.append((script, stdin))
        guard = script.partition("exec </dev/null\n")[0]
        if "node.sh" not in guard:
            return Done(0, b"", b"")
        return super().run(guard, stdin=stdin, **bounds)


class WetSubject(DryRunSubject):
    """As a dry one, but that commands are sent; answers are the model's all the same, because a
    fake node has no kubelet that could give them."""

    shell: RecordingShell

    def _lease(self, address: NodeAddress, shell: Shell, facts: NodeFacts) -> LeasedNode:
        guarded = Guarded(self.shell, facts, Risk.REBOOT, "wet", allow=set(Allow), settle=0)

        def boot(machine: str) -> None:
            self.shell.run("systemctl reboot --no-block")

        with contextlib.ExitStack() as stack:
            stack.enter_context(guarded)
            session = DryRunSession(
                "fake",
                facts,
                distribution_of(facts),
                executor=DryRunExecutor(GuardedExecutor(self.shell, guarded)),
                ledger=Ledger(),
                risk=Risk.REBOOT,
                image=Image("busybox"),
                boot=boot,
            )
            stack.pop_all()
        return LeasedNode(session, guarded)


#: What is another in each run: the owner of a lease, marks, and who runs it.
_OWN = re.compile(rb"@@pin-[0-9a-f]{16}|made-[0-9a-f]{16}|(?:wet|dry-run)-[0-9a-f]{6}")


def normal(script: str, stdin: bytes) -> bytes:
    settled = re.sub(rb"settle \S+", b"settle X", stdin)
    return _OWN.sub(b"OWN", script.encode() + b"\0" + settled)


SOME = (
    "qos/whole-cpus-are-exclusive",
    "pool/deletion-returns-cpus",
    "restart/sigkill-keeps-assignments",
    "restart/reboot-keeps-assignments",
    "state/removed-starts-afresh",
    "options/full-pcpus-splits-no-core",
    "node/start-with-a-cpu-offline-is-refused",
)


def test_every_command_of_a_run_was_in_the_dry_run(fake: FakeNode, facts: NodeFacts) -> None:
    """The same scenarios, dry and then with commands sent: byte for byte, but for what each run
    makes up. The dry one changes nothing, the other does and takes it back."""
    before, starts = fake.content(), fake.starts
    ledger, _ = walked(facts, *SOME)
    assert (fake.content(), fake.starts) == (before, starts)
    wet = WetSubject("fake", [hil_subject._Reached(ADDRESS, NoShell("fake"), facts)], OPTIONS)
    wet.shell = RecordingShell(fake)
    seen: list[dict[str, tuple[int, bytes]]] = []
    oracle = partial(ModelOracle, release="1.36")
    for case in cases(wet, *SOME):
        result = judge(case, wet, oracle=oracle, release="1.36").result
        assert (result.verdict, result.reason) == ("pass", ""), case.id
        seen.append(fake.content())
    assert all(one != before for one in seen)
    wet.close()
    assert fake.content() == before
    scripts = {normal(one.script, one.stdin) for one in ledger.commands}
    sent = [normal(*one) for one in wet.shell.sent]
    assert len(sent) > 30
    assert [one for one in sent if one not in scripts] == []
    assert len(ledger.commands) == len(sent)


def test_nothing_is_changed_and_nothing_sent(fake: FakeNode, facts: NodeFacts) -> None:
    starts = fake.starts
    with fake.unchanged():
        ledger, lines = walked(facts)
    assert fake.starts == starts
    assert len(ledger.commands) > 300
    assert [line for line in lines if "not simulated to its end" in line] == []
    assert all(line.isprintable() for line in lines)


def test_each_command_has_its_scenario_and_risk(facts: NodeFacts) -> None:
    """And the step that it is for; taking and restoring belong to none."""
    ledger, _ = walked(facts, "pool/shrinks-and-grows", "qos/whole-cpus-are-exclusive")
    scenarios = list(dict.fromkeys(one.scenario for one in ledger.commands))
    assert scenarios == ["", "pool/shrinks-and-grows", "qos/whole-cpus-are-exclusive"]
    risks = {one.scenario: one.risk for one in ledger.commands if one.scenario}
    assert set(risks.values()) == {"pods"}
    assert ledger.commands[0].step == "lease the node: lease, journal, dead-man timer"
    assert ledger.commands[-1].step == "restore the node and end the lease"
    assert {one.node for one in ledger.commands} == {"fake"}


def arguments(*words: str) -> list[str]:
    suite = [str(SUITE / "test_scenarios.py"), f"--rootdir={SUITE}", "-c", "/dev/null"]
    return [*suite, "-p", "no:cacheprovider", "--pin-subject=node:local:", *words]


def test_the_command_line_tells_what_a_run_would_send(
    reachable: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scenario, risk, step, change, command, in order; chosen as a run chooses."""
    target = "node:local:?max-risk=kubelet-restart"
    with reachable.unchanged():
        status = dry_run(target, arguments("-k", "pool/shrinks-and-grows"))
    said = capsys.readouterr().out
    assert status is ExitStatus.CONFORMANT
    assert reachable.starts == 1
    assert f"{target}: dry run: the commands below are not sent" in said
    wanted = [
        "lease the node: lease, journal, dead-man timer",
        "pool/shrinks-and-grows [pods]: start the kubelet",
        "$ systemctl stop kubelet.service",
        "pool/shrinks-and-grows [pods]: apply ",
        "change: write ",
        '"metadata":{"name":"pinproof-',
        "look: ",
        "change: remove /etc/kubernetes/manifests/pinproof-",
        "restore the node and end the lease",
        "1 scenarios, ",
        "nothing was sent",
    ]
    places = [said.find(one) for one in wanted]
    assert -1 not in places, dict(zip(wanted, places, strict=True))
    assert "< state /var/lib/kubelet/cpu_manager_state" in said


def test_what_may_not_be_done_is_not_walked(
    reachable: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = arguments("-k", "restart/sigkill-keeps-assignments")
    assert dry_run("node:local:?max-risk=pods", chosen) is ExitStatus.TOO_FEW
    said = capsys.readouterr().out
    assert "sigkill-keeps-assignments [kubelet-restart]: not run: the subject cannot" in said
    assert "stop, kill and start the kubelet: needs --max-risk kubelet-restart" in said
    assert "0 scenarios, 0 commands" in said
    assert dry_run("node:local:", arguments("-k", "nothing-of-that-name")) is ExitStatus.TOO_FEW
    assert "nothing would be run" in capsys.readouterr().err


def test_certify_tells_too(
    reachable: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    words = ["certify", "local:", "--dry-run", "--noise", "-k", "pool/shrinks-and-grows"]
    with reachable.unchanged():
        done = CliRunner().invoke(app, words)
    assert list(here.iterdir()) == []
    assert done.exit_code == 0, done.output
    assert "--noise creates two more pods" in done.output
    assert "not run: needs another kubelet configuration" not in done.output
    assert "nothing was sent" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # What follows an option that is not its own goes to pytest.
        ("certify -k pool local:", "name a node before -k"),
        ("certify local: --dry-run --max-latency 50", "--max-latency needs --noise"),
        ("run --subject reference --dry-run", "--dry-run is for real nodes (node:…), not for ref"),
        ("run --subject reference --kubeconfig /a", "--kubeconfig is for real nodes (node:…), not"),
    ],
)
def test_words_that_do_not_go_together_are_wrong_usage(words: str, said: str) -> None:
    done = CliRunner().invoke(app, words.split())
    assert isinstance(done.exception, SubjectUsageError)
    assert str(done.exception).startswith(said)


def test_a_broken_assumption_is_told(facts: NodeFacts, monkeypatch: pytest.MonkeyPatch) -> None:

    def wrong(self: Assumed, *words: object) -> object:
        raise AssertionError("nothing is assumed")

    monkeypatch.setattr(Assumed, "_container", wrong)
    _, lines = walked(facts, "pool/shrinks-and-grows", "qos/whole-cpus-are-exclusive")
    assert sum("not simulated to its end: " in line for line in lines) == 2


def test_requests_are_told_beside_commands(facts: NodeFacts) -> None:
    """Where pods come through an API server: every scenario is walked to its end, nobody asks the
    server, and no manifest is written on the node."""
    ledger, lines = walked(facts, address=replace(ADDRESS, kubeconfig=Path("/absent"), node="n7"))
    assert len({one.scenario for one in ledger.commands}) > 30
    scripts = [one.script for one in ledger.commands]
    requests = [one for one in scripts if one.startswith("# beside the runner, to the API server:")]
    assert requests[0].endswith("read node n7; remove namespaces labelled pinproof/node=n7")
    assert requests[-1].endswith("remove namespace pinproof-made-up with everything in it")
    assert any('create pod {"apiVersion"' in one and '"nodeName":"n7"' in one for one in requests)
    assert any(one.endswith("with grace 0") for one in requests)
    assert not any("/etc/kubernetes/manifests" in line for line in lines if "change:" in line)
    assert not any("not simulated to its end" in line for line in lines)
