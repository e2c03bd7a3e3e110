"""A runner that is killed leaves nothing behind: no process, no mount, no file, no namespace."""

from __future__ import annotations

import os
import random
import re
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.started import started

MARK = "PINPROOF_TEST_RUNNER"
STAGES = [
    "begun", "made", "started", "applied", "settled", "stopped", "started again",
    "closed", "made again",
]  # fmt: skip

RUNNER = """
import sys
import topologies
from conformance.subjects.kubelet import KubeletSubject
from reference.steps import Apply, Container, KubeletConfig, Pod, Start, Stop

def reached(stage):
    print(stage, flush=True)

reached("begun")
subject = KubeletSubject.open(sys.argv[1], ahead=True)
config = KubeletConfig(system_reserved="1", api_server="with an API server" in sys.argv)
node = subject.node(topologies.machine("1s-1n-8c-smt1"), config)
reached("made")
node.do(Start())
reached("started")
node.do(Apply(Pod("one", (Container("c", "2", "2", "64Mi", "64Mi"),))))
reached("applied")
node.settle(lambda view: bool(view.cpusets))
reached("settled")
node.do(Stop(kill=True))
reached("stopped")
node.do(Start())
reached("started again")
node.close()
reached("closed")
node = subject.node(topologies.machine("1s-1n-8c-smt1"), config)
reached("made again")
sys.stdin.read()
"""


def marked(mark: str) -> Iterator[int]:
    """Processes that have the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
        except OSError:
            continue


def wait_for_the_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0], f"process {pid} goes on"
    finally:
        os.close(descriptor)


def leftovers() -> dict[str, object]:
    """What a kubelet would leave on a host. What others mount meanwhile is no matter."""
    folders = ["/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/pinproof", "/.host"]
    return {
        "mounts": [
            line
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if _is_ours(line, folders)
        ],
        "folders": [name for name in folders if Path(name).exists()],
    }


def _is_ours(line: str, folders: list[str]) -> bool:
    """Whether a line of mountinfo is of a sandbox's root (``inside/root.py``) or a kubelet's."""
    mount, _, source = line.partition(" - ")
    at = mount.split()[4]
    return source.split()[1] == "pinproof" or any(f"{at}/".startswith(f"{one}/") for one in folders)


def test_a_mount_of_a_sandbox_is_seen() -> None:
    ours = "30 25 0:29 / /tmp rw,nosuid - tmpfs pinproof rw,size=1g"
    theirs = "30 25 0:29 / /tmp/x rw - tmpfs tmpfs rw"
    bound = "30 25 8:1 / /var/lib/kubelet/pods rw - ext4 /dev/sda1 rw"
    assert [_is_ours(one, ["/var/lib/kubelet"]) for one in (ours, theirs, bound)] == [
        True, False, True,
    ]  # fmt: skip


def assert_nothing_is_left(mark: str, before: dict[str, object]) -> None:
    assert list(marked(mark)) == []
    assert leftovers() == before


def kill_at(
    stage: str, kubelet: str, delay: float, *words: str, sign: int = signal.SIGKILL
) -> None:
    mark, before = uuid.uuid4().hex, leftovers()
    with started(
        "-X", "faulthandler", "-c", RUNNER, kubelet, *words, stderr=None, **{MARK: mark}
    ) as runner:
        assert runner.stdout is not None
        for line in runner.stdout:
            if line.strip() == stage:
                break
        try:
            runner.wait(delay)  # somewhere between this stage and the next
        except subprocess.TimeoutExpired:
            runner.send_signal(sign)
        try:
            runner.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            runner.send_signal(signal.SIGABRT)  # it prints the stacks of its threads, and is gone
    assert runner.returncode in (-sign, 1)  # 1: Python's own end after Ctrl-C
    for pid in marked(mark):
        wait_for_the_end(pid)
    assert_nothing_is_left(mark, before)


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_runner_leaves_nothing(kubelet_path: str, stage: str) -> None:
    kill_at(stage, kubelet_path, delay=random.uniform(0, 0.12))


@pytest.mark.parametrize(
    ("stage", "sign"),
    [
        *((stage, signal.SIGKILL) for stage in ("begun", "made", "applied")),
        ("begun", signal.SIGTERM),
        ("made", signal.SIGINT),
    ],
)
def test_no_api_server_is_left(
    kubelet_path: str, needs_api_server: None, stage: str, sign: int
) -> None:
    """Neither etcd nor the API server, however early the runner ends."""
    kill_at(stage, kubelet_path, random.uniform(0, 1.0), "with an API server", sign=sign)


@pytest.mark.parametrize(
    ("end", "words"),
    [("", []), ("raise KeyboardInterrupt", []), ("", ["with an API server"])],
    ids=["exit", "interrupt", "with an API server"],
)
def test_an_exit_without_closing_waits_until_nothing_is_left(
    kubelet_path: str, end: str, words: list[str], request: pytest.FixtureRequest
) -> None:
    if words:
        request.getfixturevalue("needs_api_server")
    mark, before = uuid.uuid4().hex, leftovers()
    program = f"{RUNNER.replace('sys.stdin.read()', '')}\n{end}"
    command = ("-c", program, kubelet_path, *words)
    started(*command, stderr=subprocess.STDOUT, **{MARK: mark}).communicate()
    assert_nothing_is_left(mark, before)


def _verdicts(stream: Path) -> list[str]:
    """Of a stream that may still be written."""
    return re.findall(r'"verdict": ?"(\w+)"', stream.read_text(encoding="utf-8"))


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_the_scenarios_that_it_had_begun(
    kubelet_path: str, tmp_path: Path, sign: int
) -> None:
    """Two run at a time, each with a kubelet. Both end with the run: no third one begins, and none
    of them is accused."""
    mark, before = uuid.uuid4().hex, leftovers()
    stream = tmp_path / "result.jsonl"
    words = ("--machine", "1s-1n-4c-smt2", "-n", "0", "-k", "pool/", "--report", str(tmp_path))
    command = ("-m", "pinproof", "run", "--subject", f"kubelet:{kubelet_path}", *words)
    running = started(*command, stderr=subprocess.STDOUT, **{MARK: mark})
    deadline = time.monotonic() + 120
    while not (stream.exists() and len(stream.read_bytes().splitlines()) > 1):
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(sign)
    before_the_signal = len(_verdicts(stream))
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 3, said
    assert "Traceback" not in said
    ended = _verdicts(stream)
    assert len(ended) <= before_the_signal + 2
    assert set(ended) <= {"pass", "skip", "unknown"}
    assert_nothing_is_left(mark, before)
