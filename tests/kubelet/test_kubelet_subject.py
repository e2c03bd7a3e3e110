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
from pathlib import Path
from typing import Literal

import pytest

import topologies
from conformance.checks import kubelet_text
from conformance.kubelets import binary as binary_module
from conformance.kubelets import builder
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
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.process import Patience
from conformance.subjects.processor import ProcessorTime, processor_time
from reference.steps import KubeletConfig, Start, Stop
from reference.view import View
from tests.cli.running import here
from tests.conformance.judging import judged
from tests.kubelet.conftest import Open, Script, do
from tests.support import lacking

#: Answers like a kubelet when asked for its version; ``{rest}`` is what it does otherwise.
POSER = """
import sys
if sys.argv[1:] == ["--version"]:
    print("Kubernetes v{version}"); sys.exit()
{rest}
"""
MACHINE = topologies.machine("1s-1n-4c-smt1")
SCENARIO = "pool/shrinks-and-grows"
NO_REASON, FLAG = "its log does not say why", "unknown flag: --config"
HANG = "import signal; signal.pause()"
#: What a kubelet logs all day, as an error and as information.
OF_SOMETHING_ELSE = (
    'E1121 09:54:57.1 25 log.go:32] "stat c/0.log: no such file"\n'
    'I1121 09:54:57.2 25 kubelet.go:18] "Syncing"'
)


def booted(opened: KubeletSubject) -> KubeletNode:
    """A node on which it was started."""
    node = opened.node(MACHINE, KubeletConfig())
    node.do(Start())
    return node


@pytest.fixture
def posed(script: Script, open_kubelet: Open) -> Open:
    """Opens a program that answers like a kubelet when asked for its version, and does this
    otherwise, in a sandbox."""
    lacking.need("sandbox")

    def opened(rest: str, version: str = "1.36.4", **how: object) -> KubeletSubject:
        return open_kubelet(script(POSER.format(rest=rest, version=version)), **how)

    return opened


def open_refused(target: str | Path) -> str:
    with pytest.raises(SubjectUsageError) as caught:
        KubeletSubject.open(str(target))
    text = str(caught.value)
    assert "\n" not in text
    return text


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


def _elf(order: Literal["little", "big"], machine: int) -> bytes:
    """The header of a program for this machine."""
    ident = b"\x7fELF\x02" + (b"\x01" if order == "little" else b"\x02") + bytes(10)
    return ident + (2).to_bytes(2, order) + machine.to_bytes(2, order) + bytes(44)


def _elsewhere(machine: str) -> str:
    return f"cannot be executed: it is built for {machine}, and this host is {platform.machine()}"


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"#!/bin/sh\n", 0o644, "is not executable"),
        (b"\x7fELF, not quite", 0o755, "cannot be executed"),
        (b"#!/no/such/interpreter\n", 0o755, "cannot be executed"),
        (_elf("little", 183), 0o755, _elsewhere("aarch64")),
        (_elf("big", 22), 0o755, _elsewhere("s390x")),
        (_elf("little", 9999), 0o755, _elsewhere("machine 9999")),
    ],
    ids=["a mode", "a format", "an interpreter", "aarch64", "s390x", "an unknown machine"],
)
def test_a_file_that_is_no_program_is_refused(
    tmp_path: Path, content: bytes, mode: int, said: str
) -> None:
    """One that is built for another architecture with its name: an ELF header is enough to tell."""
    path = tmp_path / "kubelet"
    path.write_bytes(content)
    path.chmod(mode)
    assert said in open_refused(path)
    assert "is a folder, not a kubelet" in open_refused(tmp_path)
    assert "neither a file nor a release" in open_refused(tmp_path / "absent")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "is not a kubelet: asked for --version it said nothing"),
        ("print('nonsense ' * 100)", "it answered 'nonsense nonsense"),
        ("while True: print('flood ' * 1000)", "it answered 'flood flood"),
        (HANG, "no answer to --version in 0.5 s"),
        ("print('Kubernetes v1.16.3')", "1.17 is the oldest that can be driven"),
    ],
    ids=["says nothing", "says something else", "floods", "does not answer", "too old"],
)
def test_a_program_that_is_no_kubelet_is_refused(
    script: Script, body: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is read as far as a version may be long, and it is ended."""
    if body == HANG:
        monkeypatch.setattr(binary_module, "_VERSION_PATIENCE", 0.5)
    began = time.monotonic()
    text = open_refused(script(body))
    assert said in text
    assert len(text) < 300
    assert time.monotonic() - began < 10


def test_a_kubelet_is_described(
    script: Script, open_kubelet: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path may be relative."""
    path = script(POSER.format(rest="", version="1.36.4-fork.7+dirty"))
    opened = open_kubelet(path)
    info = opened.info
    assert (info.name, info.release) == (f"kubelet:{path}", "1.36")
    assert info.version == "v1.36.4-fork.7+dirty"
    assert info.digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    without = opened.lacking.keys()
    assert without <= {Capability.API_SERVER}  # where there is no API server
    assert opened.capabilities == frozenset(Capability) - OF_REAL_NODES - without
    monkeypatch.chdir(path.parent)
    assert open_kubelet(path.name).info.facts["path"] == str(path)


#: Long lines, or one line without an end.
FLOOD = """
import os
piece = (b"I1121 09:54:57.2 25 kubelet.go:18] " + b"x" * 65000)[: 1 << 16]
for _ in range((1 << 28) >> 16):
    os.write(2, piece{end})
"""


@pytest.mark.parametrize("end", ["[:-1] + bytes([10])", ""], ids=["lines", "one line"])
def test_a_kubelet_that_floods_its_log_is_read_to_its_end(posed: Open, end: str) -> None:
    """256 MiB, of which the last lines are kept; why it gave up is known all the same."""
    opened = posed(FLOOD.format(end=end) + "sys.exit('\\nunknown flag: --config')")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = judged(SCENARIO, MACHINE, opened)
    assert result.verdict == "fail"
    assert "gave up with exit status 1: unknown flag: --config" in result.explanation
    assert len(result.explanation) < 20_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB
    assert grown < 100_000


def test_a_kubelet_that_dies_in_the_middle_of_its_start_fails(posed: Open) -> None:
    """With the signal, and with the last lines of its log."""
    rest = 'import os; print("about to die", file=sys.stderr, flush=True); os.kill(os.getpid(), 11)'
    result = judged(SCENARIO, MACHINE, posed(rest))
    assert result.verdict == "fail"
    assert "killed by SIGSEGV" in " ".join(result.explanation.split())
    assert "about to die" in result.explanation
    assert "Traceback" not in result.explanation


@pytest.mark.parametrize("last", ["", "\nno known factory can handle creation of container"])
def test_a_host_without_inotify_instances_is_no_verdict(posed: Open, last: str) -> None:
    """A genuine kubelet ends so where others of its user have them all. Where its cAdvisor lacks
    one, that has the last word."""
    said = f"inotify_init: too many open files{last}"
    result = judged(SCENARIO, MACHINE, posed(f"sys.exit({said!r})"))
    assert result.verdict == "unknown"
    assert result.reason.startswith("this host has no inotify instance left")


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


@pytest.mark.parametrize(
    ("release", "there"), [("1.18", False), ("1.19", True), ("1.23", True), ("1.24", False)]
)
def test_a_kubelet_that_asks_for_docker_has_an_answer(
    posed: Open, release: str, *, there: bool
) -> None:
    """Without one it would wait for five seconds."""
    opened = posed(ASKS_FOR_DOCKER, f"{release}.9")
    threads = set(threading.enumerate())
    node = booted(opened)
    assert node.view().error == ("that is all" if there else "there is no Docker")
    assert node.sandbox.log is not None
    said = [json.loads(line) for line in node.sandbox.log.lines() if line.startswith("[")]
    info, version = {"DockerRootDir": "/var/lib/docker"}, {"ApiVersion": "1.40"}
    answers = [[200, {}], [200, info], [200, version], [404, None]]
    assert said == ([answers] if there else [])
    opened.close()
    assert set(threading.enumerate()) <= threads


def test_a_docker_that_cannot_answer_is_no_node(
    posed: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(node_module, "FakeDocker", refuse)
    opened = posed("", "1.20.9")
    threads = set(threading.enumerate())
    with pytest.raises(SubjectSetupError, match="no Docker: no more sockets"):
        booted(opened)
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("end", "status", "error", "told"),
    [
        ("sys.exit('unknown flag: --config')", 1, FLAG, f"gave up with exit status 1: {FLAG}"),
        ("os.kill(os.getpid(), 11)", 139, "killed by SIGSEGV", "ended: killed by SIGSEGV"),
        ("sys.exit(3)", 3, NO_REASON, f"gave up with exit status 3: {NO_REASON}"),
    ],
)
def test_a_kubelet_that_gives_up_at_once_is_a_view(
    posed: Open, end: str, status: int, error: str, told: str
) -> None:
    """Its reason is not what the last error line happens to be about. A kubelet that dies of a
    signal has a shell's status, and the signal is its reason; of one that ends without any, only
    the status is known."""
    view = booted(posed(f"import os; print({OF_SOMETHING_ELSE!r}, flush=True); {end}")).view()
    assert view == View(running=False, error=error, exit_status=status)
    assert kubelet_text(view) == told


def test_a_kubelet_that_does_not_come_up_hangs(posed: Open, impatient: Patience) -> None:
    """That is a view, with its last words as evidence; nothing of it is left afterwards."""
    opened = posed(f"print('last words', flush=True)\n{HANG}", patience=impatient)
    node = booted(opened)
    seen = node.settle(lambda view: False)
    assert seen.running
    assert seen.hangs.startswith("not up after 0.7 s: it never called the container runtime; ")
    assert "last words" in node.evidence()
    node.do(Stop(kill=True))
    assert node.view().hangs == ""
    opened.close()
    with pytest.raises(ProcessLookupError):
        os.kill(node.sandbox.pid, 0)


def test_a_kubelet_that_was_given_no_processor_does_not_hang(
    posed: Open, impatient: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing can be told of it."""
    times = iter([ProcessorTime(0.0, 1.0), ProcessorTime(0.01, 1.6)])
    monkeypatch.setattr(process_module, "processor_time", lambda pid: next(times))
    with pytest.raises(SubjectLostError, match=r"this host is too busy: in 0\.7 s the kubelet had"):
        booted(posed(HANG, patience=impatient))


def test_a_smoke_test_tells_of_a_kubelet_that_hangs(posed: Open, impatient: Patience) -> None:
    opened = posed(HANG, patience=impatient)
    with pytest.raises(SubjectSetupError, match=r"hangs on the simplest .*not up after 0\.7"):
        smoke(opened)


#: A kubelet that ignores SIGTERM.
DEAF = """
import http.server, os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.makedirs("/var/lib/kubelet/device-plugins")
open("/var/lib/kubelet/device-plugins/kubelet.sock", "w").close()
os.makedirs("/pinproof/certificates")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{"items": []}')
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", 10255), Handler).serve_forever()
"""


def test_a_kubelet_that_ignores_sigterm_hangs(posed: Open) -> None:
    """Nothing of it is left afterwards all the same."""
    opened = posed(DEAF, patience=Patience(start=30, effect=0.5))
    node = booted(opened)
    node.do(Stop())
    seen = node.view()
    assert not seen.running
    assert seen.hangs.startswith("not ended 0.5 s after SIGTERM; ")
    opened.close()
    opened.close()
    with pytest.raises(ProcessLookupError):
        os.kill(node.sandbox.pid, 0)
    with pytest.raises(SubjectLostError, match="the node is closed"):
        node.view()


def test_a_subject_that_hurries_waits_for_less_until_it_is_patient_again(posed: Open) -> None:
    """Nodes that were made before go on as they were."""
    opened, seen = posed(DEAF, patience=Patience(start=30, effect=1.5)), []
    for seconds in (0.25, None, 9):
        opened.hurry(seconds)
        node = opened.node(MACHINE, KubeletConfig())
        opened.hurry(None)
        do(node, Start(), Stop())
        seen.append(node.view().hangs)
    waited = [f"not ended {seconds} s after SIGTERM" for seconds in ("0.25", "1.5", "1.5")]
    assert [text.partition(";")[0] for text in seen] == waited


def test_processor_time_counts_what_a_process_started() -> None:
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
    ("used", "waited", "starved", "hindered"),
    [
        (0.1, 14.0, True, True),
        (5.0, 10.0, False, True),
        (0.1, 0.2, False, False),
        (15.0, 40.0, False, False),
    ],
    ids=["never ran", "works beside others", "sleeps", "has worked long enough"],
)
def test_a_program_is_starved_or_hindered_that_wanted_to_run_and_others_did(
    used: float, waited: float, starved: bool, hindered: bool
) -> None:
    came = ProcessorTime(1.0 + used, 1.0 + waited).since(ProcessorTime(1.0, 1.0))
    assert (came.is_starved(15.0), came.is_hindered(15.0)) == (starved, hindered)


def test_a_kubelet_that_others_keep_from_its_work_is_waited_for_longer(
    kubelet_path: str, open_kubelet: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 1.22 a kubelet computes for seconds over devices of two kinds on eight NUMA nodes."""
    opened = open_kubelet(kubelet_path, patience=Patience(start=60, effect=0.5))
    node = opened.node(topologies.machine("1s-1n-4c-smt2"), KubeletConfig(system_reserved="1"))
    node.do(Start())
    for hindered in ([False], [True, True, False]):
        times = iter(hindered)
        monkeypatch.setattr(ProcessorTime, "is_hindered", lambda *_, times=times: next(times))
        began = time.monotonic()
        node.settle(lambda view: False)
        assert 0.5 * len(hindered) <= time.monotonic() - began
        assert next(times, None) is None


def test_what_a_kubelet_says_reaches_a_terminal_without_its_commands(posed: Open) -> None:
    """Set-up errors quote its log."""
    opened = posed(r"sys.exit('\x1b]0;owned\x07\x1b[31mno way\x1b[0m')")
    said = here("run", "--subject", opened.info.name, status=3).stderr
    assert "no way" in said
    assert "\x1b" not in said
    assert "owned" not in said
