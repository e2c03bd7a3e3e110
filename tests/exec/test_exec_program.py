"""Programs that hang, end, or write nonsense: one clear line each, and nothing left behind."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import topologies
from conformance.pods import guaranteed
from conformance.subject import SubjectLostError, SubjectSetupError, SubjectUsageError
from conformance.subjects import open_subject
from conformance.subjects.exec import ExecSubject, wire
from conformance.subjects.exec.channel import Channel, LineLost
from conformance.subjects.exec.node import ExecNode
from conformance.subjects.exec.program import PATIENCE, Program
from conformance.subjects.processor import ProcessorTime
from reference import CPUSet
from reference.steps import Apply, KubeletConfig, RemoveState, Start, Stop
from reference.view import Phase, PodView
from tests.cli.running import here
from tests.conformance.judging import judged
from tests.support.started import started

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))

#: What a program does, and what is said of it.
MANNERS = [
    ("exit", r"the program ended with exit status 7: something snapped"),
    ("die", r"the program ended with signal 11"),
    ("close", r"the program closed its standard output"),
    ("garbage", r"the program wrote '.*hello there', which is not an answer: "),
    (
        "wrong-type",
        r"which is not an answer: Expected `object \| null`, got `int` - at `\$\.refused`",
    ),
    ("oversize", r"the program wrote a line of more than 16777216 bytes"),
    ("wrong-id", r"the program answered request 7, and 2 was asked"),
    ("error", r"the program refuses start: no such thing here"),
    ("not-utf-8", r"the program wrote '.*', which is not an answer: "),
    ("null", r"the program wrote 'null', which is not an answer: "),
    ("nested", r"the program wrote '\[\[\[.*', which is not an answer: "),
    ("huge-number", r"the program answered request 10000000000000000000, and 2 was asked"),
]


@contextmanager
def _driven(command: str, patience: float = PATIENCE) -> Iterator[ExecNode]:
    """A node of this program, which is closed with it."""
    subject = ExecSubject.open(command, patience=patience)
    try:
        yield subject.node(topologies.machine("1s-1n-4c-smt1"), CONFIG)
    finally:
        subject.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a keeper keeps is not waited for long."""
    monkeypatch.setattr("conformance.subjects.exec.channel._GRACE", 0.5)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("manner", "said"), MANNERS)
def test_what_a_program_does_later_is_told_in_one_line(wrong: str, manner: str, said: str) -> None:
    with _driven(f"{wrong} {manner}") as node:
        with pytest.raises(SubjectLostError, match=said) as caught:
            node.do(Start())
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith("exec:")
        node.close()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("manner", "said"),
    [
        *MANNERS[:4],
        ("old", r"the program speaks protocol 0, not 1"),
        ("nameless", r"the program does not say which release it is"),
    ],
)
def test_what_a_program_does_at_once_is_a_setup_error(wrong: str, manner: str, said: str) -> None:
    with pytest.raises(SubjectSetupError, match=said):
        ExecSubject.open(f"{wrong} {manner}-at-once")


def test_a_program_that_hangs_is_killed_after_its_time(wrong: str) -> None:
    """Its kubelet hangs until it is stopped; then another program takes its place."""
    subject = ExecSubject.open(f"{wrong} hang", patience=1.0)
    node = subject.node(topologies.machine("1s-1n-4c-smt1"), CONFIG)
    node.do(Start())
    assert node.view().hangs == "the program hangs: no answer in 1 s"
    assert "about to hang" in node.evidence()
    node.do(Apply(guaranteed("a", 1)))
    assert node.view().pods == {"a": PodView(Phase.PENDING)}
    node.do(Stop(kill=True))
    assert node.view().hangs == ""
    node.do(RemoveState())
    fresh = subject.node(topologies.machine("1s-1n-4c-smt1"), CONFIG)
    fresh.do(RemoveState())  # the new process holds this one too
    subject.close()


def test_a_program_that_hangs_fails(wrong: str) -> None:
    """It is a verdict, with the deadline and the last of what it said."""
    with closing(ExecSubject.open(f"{wrong} hang", patience=1.0)) as subject:
        result = judged("pool/shrinks-and-grows", "1s-1n-4c-smt1", subject)
    assert result.verdict == "fail"
    assert result.reason == "hang: the kubelet answers the step “start the kubelet” in time"
    assert "hangs: the program hangs: no answer in 1 s" in result.explanation
    assert "about to hang" in result.explanation


def test_a_program_that_was_given_no_processor_does_not_hang(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing can be told of it."""
    times = iter([ProcessorTime(0.0, 0.0), ProcessorTime(0.0, 0.5)])
    monkeypatch.setattr("conformance.subjects.exec.channel.processor_time", lambda _: next(times))
    with (
        _driven(f"{wrong} hang", 0.6) as node,
        pytest.raises(SubjectLostError, match="this host is too busy"),
    ):
        node.do(Start())


def test_a_cpu_manager_that_panics_is_a_kubelet_that_is_down(wrong: str) -> None:
    with _driven(f"{wrong} panic") as node:
        node.do(Start())
        view = node.view()
    assert (view.running, view.error, view.exit_status) == (False, "panic: index out of range", 2)


@pytest.mark.parametrize(("manner", "said"), [("chatter", "chatter\n"), ("late", "")])
def test_neither_chatter_nor_a_late_answer_ends_it(wrong: str, manner: str, said: str) -> None:
    """Of standard error the end is kept; an answer may come until its deadline has passed."""
    with _driven(f"{wrong} {manner}", 10.0) as node:
        node.do(Start())
        assert node.view().running
        assert node.evidence().endswith(said)
        assert len(node.evidence()) <= 20_000


def test_an_answer_that_comes_twice_is_none_to_the_next_request(wrong: str) -> None:
    """The first counts; the second has the id of what was asked before."""
    said = "the program answered request 2, and 3 was asked"
    with _driven(f"{wrong} twice") as node, pytest.raises(SubjectLostError, match=said):
        node.do(Start())


def test_a_gigabyte_on_standard_error_is_read_and_forgotten(wrong: str) -> None:
    """All but its end."""
    with _driven(f"{wrong} flood", 60.0) as node:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        node.do(Start())
        assert node.view().running
        assert len(node.evidence()) < 30_000
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 50_000  # KiB


@pytest.mark.parametrize("manner", ["nested", "garbage-at-once", "panic"])
def test_a_run_ends_with_a_status_and_without_a_stack_trace(wrong: str, manner: str) -> None:
    """Nothing can be told of it, which is 3, with a line that says why; each is told above."""
    which = ("--machine", "1s-1n-4c-smt1", "-n", "0", "-k", "pool/shrinks-and-grows")
    done = here("run", "--subject", f"exec:{wrong} {manner}", *which, status=3)
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search("the program |panic: index out of range", done.stdout + done.stderr)


def test_what_a_program_leaves_behind_is_killed_with_it(wrong: str) -> None:
    with _driven(f"{wrong} leave-children") as node:
        with pytest.raises(SubjectLostError, match="exit status 3") as caught:
            node.do(Start())
        found = re.search(r"left (\d+)", caught.value.evidence)
        assert found is not None
        assert not Path(f"/proc/{found[1]}").exists()


def test_requests_may_be_sent_ahead_of_their_answers(wrong: str) -> None:
    """More of them than both pipes hold at a time, and each answer goes to its request."""
    program = Program("ahead", [*wrong.split(), "good"])
    batches = [[wire.Stop(node="n" * 500) for _ in range(100)] for _ in range(20)]
    for batch in batches:
        program.send(batch)
    for batch in batches:
        assert [one.id for one in program.receive(batch)] == [one.id for one in batch]
    program.close()
    with pytest.raises(SubjectLostError, match="was closed"):
        program.send([wire.Stop(node="n")])


def test_of_requests_sent_ahead_those_before_the_end_are_answered(wrong: str) -> None:
    program = Program("ahead", [*wrong.split(), "exit"])
    whole, fatal, late = [wire.Stop(node="a")], [wire.Start(node="a")], [wire.Stop(node="a")]
    for batch in (whole, fatal, late):
        program.send(batch)
    assert len(program.receive(whole)) == 1
    with pytest.raises(SubjectLostError, match="exit status 7"):
        program.receive(fatal)
    with pytest.raises(SubjectLostError, match="exit status 7"):
        program.receive(late)
    assert program.lost


RUNNER = """
import sys, signal
from conformance.subjects.exec.channel import Channel
channel = Channel(sys.argv[1:])
channel.send([b'{"op": "hello", "id": 1}\\n'])
channel.receive(1, patience=30)
print(channel._process.pid, flush=True)
signal.pause()
"""


@pytest.mark.needs("shm")
def test_nothing_outlives_a_runner_that_was_killed(wrong: str) -> None:
    with started("-c", RUNNER, *wrong.split(), "good") as runner:
        assert runner.stdout is not None
        pid = int(runner.stdout.readline())
        keeper = os.pidfd_open(pid)
        (program,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        variables = Path(f"/proc/{program}/environ").read_text().split("\0")
        folder = Path(dict(one.partition("=")[::2] for one in variables)["TMPDIR"])
        assert folder.parent == Path("/dev/shm")
        assert folder.is_dir()
        runner.send_signal(signal.SIGKILL)
    assert select.select([keeper], [], [], 30)[0]
    os.close(keeper)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "takes a command, or a release such as 1.36"),
        ("/no/such/program", "/no/such/program: neither a program nor a release"),
        ("'unbalanced", "No closing quotation"),
        ("1.21", "1.22 is the oldest"),
    ],
)
def test_a_command_that_cannot_be_is_wrong_usage(command: str, said: str) -> None:
    with pytest.raises(SubjectUsageError, match=said):
        open_subject(f"exec:{command}")


# -- programs that one thread starts while another changes the environment -------------------------


@pytest.fixture
def another_thread_changes_it() -> Iterator[None]:
    over, names = threading.Event(), [f"PINPROOF_TEST_{number}" for number in range(50)]

    def change() -> None:
        length = 0
        while not over.is_set():
            for name in names:
                length = (length + 1) % 200
                os.environ[name] = "x" * length
            for name in names:
                del os.environ[name]

    thread = threading.Thread(target=change)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("another_thread_changes_it")
def test_a_program_is_started_all_the_same(tmp_path: Path) -> None:
    """Without an environment of its own half of them fail with "Bad address"."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    lost = 0
    for _ in range(20):
        try:
            channel = Channel([str(program)])
        except LineLost:
            lost += 1
        else:
            channel.close()
    assert not lost


#: Says hello to every request, with the request's number.
_POLITE = (
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    hello = {'protocol': 1, 'release': '1.36', 'version': 'v1.36.4'}\n"
    "    print(json.dumps({'id': json.loads(line)['id'], **hello}), flush=True)\n"
)


def test_threads_that_share_a_program_take_turns() -> None:
    """As where explore drives several nodes at a time."""
    with closing(Program("exec:polite", [sys.executable, "-c", _POLITE])) as program:

        def ask(_: int) -> str:
            return program.ask(wire.Hello(protocol=wire.PROTOCOL), wire.HelloAnswer).release

        with ThreadPoolExecutor(8) as threads:
            assert {*threads.map(ask, range(2000))} == {"1.36"}
