"""What a user may name as a kubelet, and what becomes of programs that are none."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

import topologies
from conformance.catalogue import find
from conformance.checks import kubelet_text
from conformance.judge import Case, judge
from conformance.kubelets import binary as binary_module
from conformance.kubelets import builder
from conformance.oracle import ModelOracle
from conformance.smoke import smoke
from conformance.subject import (
    OF_REAL_NODES,
    Capability,
    SubjectLostError,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet import node as node_module
from conformance.subjects.kubelet import process as process_module
from conformance.subjects.kubelet import subject as subject_module
from conformance.subjects.kubelet.process import Patience
from conformance.subjects.processor import ProcessorTime, processor_time
from pinproof.cli import main
from reference.steps import KubeletConfig, Start, Stop

Script = Callable[[str], Path]

#: Answers like a kubelet when asked for its version; ``{rest}`` is what it does otherwise.
POSER = """
import sys
if sys.argv[1:] == ["--version"]:
    print("Kubernetes v1.36.4-fork.7+dirty"); sys.exit()
{rest}
"""
ORACLE = partial(ModelOracle, release="1.36")
HANG = "import signal; signal.pause()"
#: What a kubelet logs all day, as an error and as information.
OF_SOMETHING_ELSE = (
    'E1121 09:54:57.1 25 log.go:32] "stat c/0.log: no such file"\n'
    'I1121 09:54:57.2 25 kubelet.go:18] "Syncing"'
)


def open_refused(target: str | Path) -> str:
    with pytest.raises(SubjectUsageError) as caught:
        KubeletSubject.open(str(target))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_an_absent_program_is_refused(tmp_path: Path) -> None:
    assert "neither a file nor a release" in open_refused(tmp_path / "absent")


def test_nothing_is_built_where_no_sandbox_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first build takes minutes, and would be for nothing."""

    def refused() -> None:
        raise SubjectSetupError("no sandbox could be made: namespaces: refused")

    def built(*_: object, **__: object) -> None:
        pytest.fail("it was built")

    monkeypatch.setattr(builder, "cached", list)
    monkeypatch.setattr(builder, "build", built)
    monkeypatch.setattr(subject_module, "can_be_made", refused)
    with pytest.raises(SubjectSetupError, match=r"^no sandbox could be made"):
        KubeletSubject.open("1.36")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder, not a kubelet" in open_refused(tmp_path)


def test_a_file_that_may_not_be_executed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubelet"
    path.write_text("#!/bin/sh\n")
    assert "is not executable" in open_refused(path)


def test_a_file_that_cannot_be_executed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubelet"
    path.write_bytes(b"\x7fELF, not quite")
    path.chmod(0o755)
    assert "cannot be executed" in open_refused(path)


@pytest.mark.parametrize(
    ("order", "number", "built_for"),
    [("little", 183, "aarch64"), ("big", 22, "s390x"), ("little", 9999, "machine 9999")],
)
def test_a_kubelet_of_another_architecture_says_so(
    tmp_path: Path, order: Literal["little", "big"], number: int, built_for: str
) -> None:
    """An ELF header is enough to tell."""
    path = tmp_path / "kubelet"
    ident = b"\x7fELF\x02" + (b"\x01" if order == "little" else b"\x02") + bytes(10)
    path.write_bytes(ident + (2).to_bytes(2, order) + number.to_bytes(2, order) + bytes(44))
    path.chmod(0o755)
    assert open_refused(path).endswith(
        f"cannot be executed: it is built for {built_for}, and this host is {platform.machine()}"
    )


def test_a_missing_interpreter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubelet"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert "cannot be executed" in open_refused(path)


def test_a_program_that_says_nothing_is_no_kubelet(script: Script) -> None:
    said = open_refused(script(""))
    assert "is not a kubelet: asked for --version it said nothing" in said


def test_another_program_is_no_kubelet() -> None:
    assert "/bin/true is not a kubelet" in open_refused("/bin/true")


def test_a_program_that_says_something_else_is_no_kubelet(script: Script) -> None:
    text = open_refused(script("print('nonsense ' * 100)"))
    assert "it answered 'nonsense nonsense" in text
    assert len(text) < 300


def test_a_program_that_does_not_answer_is_no_kubelet(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binary_module, "_VERSION_PATIENCE", 0.5)
    assert "no answer to --version in 0.5 s" in open_refused(script(HANG))


def test_a_program_that_floods_its_answer_is_no_kubelet(script: Script) -> None:
    """Its answer is read as far as a version may be long, and it is ended."""
    began = time.monotonic()
    said = open_refused(script("while True: print('flood ' * 1000)"))
    assert "it answered 'flood flood" in said
    assert time.monotonic() - began < 10
    assert len(said) < 300


def test_a_release_older_than_the_oldest_is_refused(script: Script) -> None:
    text = open_refused(script("print('Kubernetes v1.16.3')"))
    assert "1.17 is the oldest that can be driven" in text


def test_a_kubelet_is_described(script: Script) -> None:
    path = script(POSER.format(rest=""))
    opened = KubeletSubject.open(str(path))
    assert opened.info.name == f"kubelet:{path}"
    assert opened.info.release == "1.36"
    assert opened.info.version == "v1.36.4-fork.7+dirty"
    assert opened.info.digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    without = opened.lacking.keys()
    assert without <= {Capability.API_SERVER}  # where there is no API server
    assert opened.capabilities == frozenset(Capability) - OF_REAL_NODES - without


def test_a_path_may_be_relative(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(POSER.format(rest=""))
    monkeypatch.chdir(path.parent)
    assert KubeletSubject.open(path.name).info.facts["path"] == str(path)


def started(path: Path, patience: Patience) -> None:
    opened = KubeletSubject.open(str(path), patience=patience)
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    try:
        node.do(Start())
    finally:
        node.close()


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_gives_up_at_once_is_a_view(script: Script, impatient: Patience) -> None:
    path = script(POSER.format(rest="sys.exit('unknown flag: --config')"))
    opened = KubeletSubject.open(str(path), patience=Patience(start=30, effect=1))
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    node.do(Start())
    seen = node.view()
    opened.close()
    assert not seen.running
    assert (seen.error, seen.exit_status) == ("unknown flag: --config", 1)
    assert seen.state_file is None
    assert seen.pods == {}


#: A gigabyte of long lines, and one of one line without an end.
FLOOD = """
import os
piece = (b"I1121 09:54:57.2 25 kubelet.go:18] " + b"x" * 65000)[: 1 << 16]
for _ in range((1 << 30) >> 16):
    os.write(2, piece{end})
"""


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize("end", ["[:-1] + bytes([10])", ""], ids=["lines", "one line"])
def test_a_kubelet_that_floods_its_log_is_read_to_its_end(script: Script, end: str) -> None:
    """A gigabyte, of which the last lines are kept; why it gave up is known all the same."""
    rest = FLOOD.format(end=end) + "sys.exit('\\nunknown flag: --config')"
    opened = KubeletSubject.open(str(script(POSER.format(rest=rest))))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scenario = find("pool/shrinks-and-grows")
    assert scenario is not None
    case = Case(scenario, topologies.machine("1s-1n-4c-smt1"))
    result = judge(case, opened, oracle=ORACLE, release="1.36").result
    opened.close()
    assert result.verdict == "fail"
    assert "gave up with exit status 1: unknown flag: --config" in result.explanation
    assert len(result.explanation) < 20_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB
    assert grown < 100_000


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_dies_in_the_middle_of_its_start_fails(script: Script) -> None:
    """With the signal, and with the last lines of its log."""
    rest = 'import os; print("about to die", file=sys.stderr, flush=True); os.kill(os.getpid(), 11)'
    opened = KubeletSubject.open(str(script(POSER.format(rest=rest))))
    scenario = find("pool/shrinks-and-grows")
    assert scenario is not None
    case = Case(scenario, topologies.machine("1s-1n-4c-smt1"))
    result = judge(case, opened, oracle=ORACLE, release="1.36").result
    opened.close()
    assert result.verdict == "fail"
    assert "killed by SIGSEGV" in " ".join(result.explanation.split())
    assert "about to die" in result.explanation
    assert "Traceback" not in result.explanation


#: Asks for Docker, as cAdvisor does before anything else.
ASKS_FOR_DOCKER = """
import http.client, json, socket
sockets = [word.partition("=unix://")[2] for word in sys.argv if word.startswith("--docker=")]
if not sockets:
    sys.exit("there is no Docker")
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sockets[0])
def ask(path):
    connection = Connection("docker")
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
print(json.dumps([ask("/_ping"), ask("/v1.40/info"), ask("/v1.40/version"), ask("/v1.40/images")]))
sys.exit("that is all")
"""


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize(
    ("release", "there"),
    [("1.18", False), ("1.19", True), ("1.20", True), ("1.23", True), ("1.24", False)],
)
def test_a_kubelet_that_asks_for_docker_has_an_answer(
    script: Script, release: str, *, there: bool
) -> None:
    """Without one it would wait for five seconds."""
    path = script(POSER.format(rest=ASKS_FOR_DOCKER).replace("1.36.4", f"{release}.9"))
    opened = KubeletSubject.open(str(path))
    threads = set(threading.enumerate())
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    node.do(Start())
    assert node.view().error == ("that is all" if there else "there is no Docker")
    assert node.sandbox.log is not None
    said = [json.loads(line) for line in node.sandbox.log.lines() if line.startswith("[")]
    answers = [
        [200, {}],
        [200, {"DockerRootDir": "/var/lib/docker"}],
        [200, {"ApiVersion": "1.40"}],
        [404, None],
    ]
    assert said == ([answers] if there else [])
    opened.close()
    assert set(threading.enumerate()) <= threads


@pytest.mark.needs("sandbox")
def test_a_docker_that_cannot_answer_is_no_node(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(node_module, "FakeDocker", refuse)
    opened = KubeletSubject.open(str(script(POSER.format(rest="").replace("1.36.4", "1.20.9"))))
    threads = set(threading.enumerate())
    with pytest.raises(SubjectSetupError, match="no Docker: no more sockets"):
        opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    assert set(threading.enumerate()) <= threads


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_dies_of_a_signal_has_a_shells_status(script: Script) -> None:
    """And the signal is its reason, whatever the last error line of its log is about."""
    noise = f"print({OF_SOMETHING_ELSE!r}, flush=True)"
    path = script(POSER.format(rest=f"{noise}; import os; os.kill(os.getpid(), 11)"))
    opened = KubeletSubject.open(str(path))
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    node.do(Start())
    view = node.view()
    opened.close()
    assert (view.exit_status, view.error) == (128 + 11, "killed by SIGSEGV")
    assert kubelet_text(view) == "ended: killed by SIGSEGV"


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_ends_without_a_reason_is_not_given_one(script: Script) -> None:
    """Only its status is known: no line of its log says why."""
    noise = f"print({OF_SOMETHING_ELSE!r}, flush=True)"
    opened = KubeletSubject.open(str(script(POSER.format(rest=f"{noise}; sys.exit(3)"))))
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    node.do(Start())
    view = node.view()
    opened.close()
    assert kubelet_text(view) == "gave up with exit status 3: its log does not say why"


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_does_not_come_up_hangs(script: Script, impatient: Patience) -> None:
    """That is a view, with its last words as evidence; nothing of it is left afterwards."""
    path = script(POSER.format(rest="print('last words', flush=True)\n" + HANG))
    opened = KubeletSubject.open(str(path), patience=impatient)
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    node.do(Start())
    seen = node.settle(lambda view: False)
    assert seen.running
    assert seen.hangs.startswith("not up after 0.7 s: it never called the container runtime; ")
    assert "last words" in node.evidence()
    node.do(Stop(kill=True))
    assert node.view().hangs == ""
    opened.close()
    with pytest.raises(ProcessLookupError):
        os.kill(node.sandbox.pid, 0)


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_was_given_no_processor_does_not_hang(
    script: Script, impatient: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing can be told of it."""
    times = iter([ProcessorTime(0.0, 1.0), ProcessorTime(0.01, 1.6)])
    monkeypatch.setattr(process_module, "processor_time", lambda pid: next(times))
    with pytest.raises(SubjectLostError, match=r"this host is too busy: in 0\.7 s the kubelet had"):
        started(script(POSER.format(rest=HANG)), impatient)


@pytest.mark.needs("sandbox")
def test_a_smoke_test_tells_of_a_kubelet_that_hangs(script: Script, impatient: Patience) -> None:
    opened = KubeletSubject.open(str(script(POSER.format(rest=HANG))), patience=impatient)
    with pytest.raises(
        SubjectSetupError, match=r"hangs on the simplest machine.*not up after 0\.7"
    ):
        smoke(opened)
    opened.close()


def _deaf() -> str:
    """The script of a kubelet that ignores SIGTERM."""
    sock = "/var/lib/kubelet/device-plugins/kubelet.sock"
    rest = f"""
import http.server, os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.makedirs(os.path.dirname({sock!r})); open({sock!r}, "w").close()
os.makedirs("/pinproof/certificates")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{{"items": []}}')
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", 10255), Handler).serve_forever()
"""
    return POSER.format(rest=rest)


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_ignores_sigterm_hangs(script: Script, impatient: Patience) -> None:
    """Nothing of it is left afterwards all the same."""
    opened = KubeletSubject.open(str(script(_deaf())), patience=Patience(start=30, effect=0.5))
    node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
    node.do(Start())
    outer = os.pidfd_open(node.sandbox.pid)
    node.do(Stop())
    seen = node.view()
    assert not seen.running
    assert seen.hangs.startswith("not ended 0.5 s after SIGTERM; ")
    opened.close()
    opened.close()
    with pytest.raises(ProcessLookupError):
        os.kill(node.sandbox.pid, 0)
    os.close(outer)
    with pytest.raises(SubjectLostError, match="the node is closed"):
        node.view()


@pytest.mark.needs("sandbox")
def test_a_subject_that_hurries_waits_for_less_until_it_is_patient_again(script: Script) -> None:
    """Nodes that were made before go on as they were."""
    patience = Patience(start=30, effect=1.5)
    with closing(KubeletSubject.open(str(script(_deaf())), patience=patience)) as opened:
        seen = []
        for seconds in (0.25, None, 9):
            opened.hurry(seconds)
            node = opened.node(topologies.machine("1s-1n-4c-smt1"), KubeletConfig())
            opened.hurry(None)
            node.do(Start())
            node.do(Stop())
            seen.append(node.view().hangs)
    waited = [f"not ended {seconds} s after SIGTERM" for seconds in ("0.25", "1.5", "1.5")]
    assert [text.partition(";")[0] for text in seen] == waited


def test_processor_time_counts_what_a_process_started() -> None:
    """A child that spins is its parent's business."""
    spin = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); input()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processor_time(process.pid).used >= 0.3
        process.communicate(b"\n")
    assert processor_time(process.pid) == ProcessorTime()


@pytest.mark.parametrize(
    ("used", "waited", "starved"),
    [(0.1, 14.0, True), (5.0, 10.0, False), (0.1, 0.2, False)],
    ids=["never ran", "spins beside others", "sleeps"],
)
def test_a_program_is_starved_that_wanted_to_run_and_did_not(
    used: float, waited: float, starved: bool
) -> None:
    before = ProcessorTime(1.0, 1.0)
    assert ProcessorTime(1.0 + used, 1.0 + waited).since(before).is_starved(15.0) is starved


@pytest.mark.parametrize(
    ("used", "waited", "hindered"),
    [(2.0, 12.0, True), (15.0, 40.0, False), (2.0, 1.0, False)],
    ids=["works beside others", "has worked long enough", "sleeps"],
)
def test_a_program_is_hindered_that_works_beside_others(
    used: float, waited: float, hindered: bool
) -> None:
    assert ProcessorTime(used, waited).is_hindered(15.0) is hindered


@pytest.mark.parametrize("waits", [1, 3])
def test_a_kubelet_that_others_keep_from_its_work_is_waited_for_longer(
    kubelet_path: str, monkeypatch: pytest.MonkeyPatch, waits: int
) -> None:
    """Up to 1.22 a kubelet computes for seconds over devices of two kinds on eight NUMA nodes."""
    opened = KubeletSubject.open(kubelet_path, patience=Patience(start=60, effect=0.5))
    node = opened.node(topologies.machine("1s-1n-4c-smt2"), KubeletConfig(system_reserved="1"))
    node.do(Start())
    times = iter([True] * (waits - 1) + [False])
    monkeypatch.setattr(ProcessorTime, "is_hindered", lambda *_: next(times))
    began = time.monotonic()
    node.settle(lambda view: False)
    assert 0.5 * waits <= time.monotonic() - began
    assert next(times, None) is None
    opened.close()


@pytest.mark.needs("sandbox")
def test_what_a_kubelet_says_reaches_a_terminal_without_its_commands(
    script: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set-up errors quote its log."""
    path = script(POSER.format(rest=r"sys.exit('\x1b]0;owned\x07\x1b[31mno way\x1b[0m')"))
    monkeypatch.setattr(sys, "argv", ["pinproof", "run", "--subject", f"kubelet:{path}"])
    with pytest.raises(SystemExit) as caught:
        main()
    said = capsys.readouterr().err
    assert caught.value.code == 3
    assert "no way" in said
    assert "\x1b" not in said
    assert "owned" not in said
