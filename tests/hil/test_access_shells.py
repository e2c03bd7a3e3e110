"""Shells: one contract, on this host and over SSH to a real server of one's own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EOF

from hil.shell import Done, NodeTimeout, NodeUnfit, NodeUnreachable, NodeUsageError, Shell
from hil.transport import NodeAddress, connect, connected, ssh
from hil.transport.local import LocalShell
from hil.transport.route import route
from hil.transport.supervised import Sudo, Supervised
from hil.transport.testinfra import host_of
from tests.support import lacking
from tests.support.hostile_ssh import Moment, silent_server
from tests.support.sshd import OwnSshd, own_sshd
from tests.support.until import until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSshd]:
    with own_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def address(server: OwnSshd) -> NodeAddress:
    return server.address()


@contextlib.contextmanager
def opened(address: NodeAddress, *, patience: float = ssh._CONNECT) -> Iterator[ssh.SSHShell]:
    """Not yet connected."""
    hops = route(address.url, identity=address.identity, known_hosts=address.known_hosts)
    with contextlib.closing(ssh.SSHShell("node1", hops, patience=patience)) as shell:
        yield shell


@pytest.fixture(params=["local", "ssh"])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    if request.param == "local":
        yield LocalShell("node1")
        return
    with connected(request.getfixturevalue("address")) as opened:
        yield opened


def alive(mark: str) -> list[str]:
    """Processes with this in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def gone(mark: str, within: float = 8.0) -> bool:
    """Whether they all end in time."""
    return until(lambda: not alive(mark), within)


@contextlib.contextmanager
def when_alive(mark: str, then: Callable[[], None]) -> Iterator[None]:
    """While the block runs, this is done once a process has that in its environment."""

    def wait() -> None:
        assert until(lambda: alive(mark))
        then()

    doing = threading.Thread(target=wait)
    doing.start()
    yield
    doing.join()


def test_status_streams_and_stdin(shell: Shell) -> None:
    """A signal is a negative status, and each script is a round trip."""
    before = shell.trips
    done = shell.run("echo out; echo err >&2; cat; exit 3", stdin=b"in\0\xff")
    assert (done.status, done.stdout, done.stderr) == (3, b"out\nin\0\xff", b"err\n")
    assert shell.run("kill -9 $$").status == -9
    assert shell.trips == before + 2


def test_scripts_are_not_touched_by_shells_in_between(shell: Shell) -> None:
    script = "printf '%s|' \"a'b\" 'c\"d' '$HOME' '!x' '\\\\n' ; echo '\té'"
    assert shell.run(script).text == "a'b|c\"d|$HOME|!x|\\\\n|\té\n"


@pytest.mark.parametrize("login", ["bash", "busybox sh", "dash", "fish", "ksh", "tcsh", "zsh"])
def test_login_shells_of_all_kinds_hand_it_on(login: str) -> None:
    """Each reads quotes, backslashes and exclamation marks in its own way."""
    program, *words = login.split()
    lacking.program(program)
    script = "printf '%s|' \"a'b\" '!!' '\\n' 'é\t' \"$PWD\"\ncat; exit 3"
    run = Supervised.of(script, 20, root=os.geteuid() == 0)
    done = ended(run, program, *words, "-c", run.command(), input=b"in", cwd="/")
    assert (done.status, done.text) == (3, "a'b|!!|\\n|é\t|/|in")


def ended(run: Supervised, *words: str, **how: Any) -> Done:
    """What a supervised script came to that these words ran."""
    done = subprocess.run(words, capture_output=True, timeout=60, check=False, **how)
    return run.done(done.returncode, done.stdout, done.stderr, node="node1")


def test_large_input_and_output_do_not_wait_for_each_other(shell: Shell) -> None:
    data = os.urandom(1 << 20)
    assert shell.run("cat", stdin=data).stdout == data
    assert shell.run("exec <&-; echo done", stdin=b"x" * (4 << 20)).text == "done\n"


def test_a_deadline_ends_the_command_and_its_children(shell: Shell) -> None:
    with pytest.raises(NodeTimeout, match=r"took longer than 0\.3 s"):
        shell.run("export MARK=pinproof-late; (sleep 60 & sleep 60) & nohup sleep 60", deadline=0.3)
    for stream in (1, 2):
        with pytest.raises(NodeTimeout, match="wrote more than 1000 bytes"):
            shell.run(f"export MARK=pinproof-late; yes >&{stream}", limit=1000)
    assert shell.run("export MARK=pinproof-late; sleep 60 & echo x").text == "x\n"
    assert gone("MARK=pinproof-late")


def test_a_script_that_is_too_long_is_a_mistake_of_ours(shell: Shell) -> None:
    with pytest.raises(ValueError, match="send files by stdin"):
        shell.run("#" * 100_000)


def test_scripts_run_at_the_same_time(address: NodeAddress) -> None:
    """Each waits for the other: one connection carries both."""
    with connected(address) as shell:
        folder = shell.run("mktemp -d").text.strip()
        other = threading.Thread(target=shell.run, args=(f"until [ -e {folder}/a ]; do :; done",))
        other.start()
        shell.run(f"touch {folder}/a")
        other.join(timeout=20)
        assert not other.is_alive()
        shell.run(f"rm -r {folder}")


def test_a_session_that_is_refused_ends_no_other(tmp_path: Path) -> None:
    """``MaxSessions 1``: the sign of life during a long step, for example."""
    with own_sshd(tmp_path, sessions=1) as server:
        done: list[str] = []
        with connected(server.address()) as shell:
            begun, go = tmp_path / "begun", tmp_path / "go"
            script = f"touch {begun}; until [ -e {go} ]; do sleep 0.1; done; echo whole"
            long = threading.Thread(target=lambda: done.append(shell.run(script).text))
            long.start()
            try:
                until(begun.exists)
                with pytest.raises(NodeUnreachable, match="refuses to open a session"):
                    shell.run("true")
            finally:
                go.touch()
                long.join()
        assert done == ["whole\n"]


@pytest.mark.parametrize("stdin", [b"", b"that nobody reads"])
def test_what_is_sent_late_ends_no_connection(
    address: NodeAddress, monkeypatch: pytest.MonkeyPatch, stdin: bytes
) -> None:
    """A script may end while its stdin, or the end of it, is on the way."""
    send = paramiko.Transport._send_user_message  # type: ignore[attr-defined]

    def late(transport: paramiko.Transport, message: paramiko.Message) -> None:
        kind = message.asbytes()[0]
        if kind in (MSG_CHANNEL_DATA, MSG_CHANNEL_EOF) and threading.current_thread() != transport:
            time.sleep(0.3)
        send(transport, message)

    with opened(address) as shell:
        connection = shell.connect()
        monkeypatch.setattr(paramiko.Transport, "_send_user_message", late)
        for _ in range(3):
            assert shell.run("exec <&-; echo done", stdin=stdin).text == "done\n"
        assert shell.connect() is connection


def test_a_connection_made_since_is_not_dropped(address: NodeAddress) -> None:
    """By a thread whose own one broke before."""
    with opened(address) as shell:
        broken = shell.connect()
        broken.close()
        since = shell.connect()
        with pytest.MonkeyPatch.context() as late:
            late.setattr(shell, "connect", lambda: broken)
            with pytest.raises(NodeUnreachable, match="connection broke"):
                shell.run("true")
        assert shell.connect() is since


def test_what_comes_while_a_channel_closes_goes_to_no_file(
    address: NodeAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of paramiko writes to the pipe of ``Channel.fileno``, also when it is closed."""
    monkeypatch.setattr("paramiko.pipe.make_pipe", lambda: pytest.fail("a pipe was made"))
    with connected(address) as shell:
        assert shell.run("echo out").text == "out\n"


def test_a_connection_that_is_cut_ends_what_ran(server: OwnSshd, address: NodeAddress) -> None:
    with connected(address) as shell:
        with (
            when_alive("MARK=pinproof-cut", server.cut),
            pytest.raises(NodeUnreachable, match="connection broke"),
        ):
            shell.run("export MARK=pinproof-cut; sleep 60; sleep 61")
        assert gone("MARK=pinproof-cut")
        assert shell.run("echo again").text == "again\n"


def test_a_runner_that_is_killed_leaves_nothing() -> None:
    """SIGKILL gives it no chance to clean up; what it started sees that it is gone."""
    code = (
        "from hil.transport.local import LocalShell\n"
        "LocalShell().run('export MARK=pinproof-orphan; sleep 60 & sleep 60')"
    )
    runner = subprocess.Popen([sys.executable, "-c", code])
    assert until(lambda: alive("MARK=pinproof-orphan"))
    assert runner.poll() is None
    runner.kill()
    runner.wait()
    assert gone("MARK=pinproof-orphan")


def refusal(address: NodeAddress) -> str:
    with pytest.raises(NodeUnreachable) as caught:
        connect(address)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("node1")
    return str(caught.value)


def test_a_host_that_is_not_known_is_refused(address: NodeAddress, tmp_path: Path) -> None:
    new = tmp_path / "hosts"
    strict = replace(address, known_hosts=new)
    message = refusal(strict)
    assert "SHA256:" in message
    assert "is not in" in message
    assert not new.exists()
    with connected(replace(strict, accept_new=True)) as shell:
        assert shell.run("echo in").text == "in\n"
    with connected(strict):
        pass


def test_a_key_that_is_not_there_is_wrong_usage(address: NodeAddress, tmp_path: Path) -> None:
    with pytest.raises(NodeUsageError, match="identity: there is no file"):
        connect(replace(address, identity=(tmp_path / "absent",)))


def test_a_host_in_between(server: OwnSshd, address: NodeAddress) -> None:
    """Both hosts' keys are checked."""
    jumping = replace(address, jump=(server.url,))
    with connected(jumping) as shell:
        assert shell.run("echo beyond").text == "beyond\n"
    message = refusal(replace(jumping, url="ssh://root@127.0.0.1:1"))
    assert "it opens no connection to ssh://root@127.0.0.1:1: Connect" in message


@contextlib.contextmanager
def runs_instead(folder: Path, script: str) -> Iterator[Shell]:
    """A shell on a server that runs this script, whatever it is asked to run."""
    forced = folder / "forced"
    forced.write_text(f"#!/bin/sh\n{script}\n")
    forced.chmod(0o755)
    folder.chmod(0o755)
    with (
        own_sshd(folder / "sshd", force_command=str(forced)) as server,
        connected(server.address()) as shell,
    ):
        yield shell


def test_a_node_that_runs_something_else(tmp_path: Path) -> None:
    script = "head -c 300000 /dev/urandom; printf '\\033[2Jboo' >&2; exit 1"
    message = r"the login shell runs no POSIX shell \(status 1\): it said \\x1b\[2Jboo"
    with runs_instead(tmp_path, script) as shell, pytest.raises(NodeUnfit, match=message):
        shell.run("echo hi")


def test_greetings_of_a_login_shell_are_not_output(tmp_path: Path) -> None:
    with runs_instead(tmp_path, 'echo hello; echo hey >&2\neval "$SSH_ORIGINAL_COMMAND"') as shell:
        done = shell.run("echo hi; echo ho >&2")
        assert (done.text, done.stderr) == ("hi\n", b"ho\n")


@pytest.mark.needs("root")
def test_whoever_is_not_root_is_refused(tmp_path: Path) -> None:
    """Before anything of the script runs."""
    tmp_path.chmod(0o777)
    run = Supervised.of(f"touch {tmp_path}/never", 5, root=True)
    message = r"^node1: the login user is nobody, not root: give --sudo, or set"
    with pytest.raises(NodeUnfit, match=message):
        ended(run, *run.arguments(os.getpid()), user=65534, group=65534)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("sudo", [False, True])
def test_on_this_host_pinproof_itself_is_run_as_root(
    monkeypatch: pytest.MonkeyPatch, sudo: bool
) -> None:
    """Logins use it: what --sudo cannot mend, the message does not name as the remedy."""
    if os.geteuid() == 0:
        as_nobody = partial(subprocess.Popen, user=65534, group=65534)
        monkeypatch.setattr(subprocess, "Popen", as_nobody)
    message = r"^n: pinproof runs as \S+, not root: run pinproof itself as root$"
    with (
        connected(NodeAddress("n", "local:", sudo=sudo)) as shell,
        pytest.raises(NodeUnfit, match=message),
    ):
        shell.run("true")


def test_sudo_that_makes_the_login_nobody_is_told() -> None:
    """Where its settings name another user than root."""
    run = Supervised.of("true", 5, root=True, sudo=Sudo())
    with pytest.raises(NodeUnfit, match=r"^node1: sudo makes the login nobody, not root$"):
        run.done(77, f"{run.token} 5 nobody\n".encode(), b"", node="node1")


def test_a_testinfra_host(shell: Shell) -> None:
    """Users' own tests speak over our connection."""
    host: Any = host_of(shell)  # its modules are found by name
    before = shell.trips
    assert host.file("/etc/passwd").is_file
    assert host.run("echo %s", "a b; c").stdout == "a b; c\n"
    assert host.user("root").uid == 0
    assert shell.trips > before


class LateChannel(paramiko.Channel):
    """A channel whose exit status is there at once. Its only output comes 0.2 s later, or, with
    ``eof``, between a look at what was received and a look at its end."""

    def __init__(self, *, eof: bool) -> None:
        super().__init__(1)
        self.exit_status, self.eof_sent = 0, True
        self.status_event.set()
        self._eof = eof
        if not eof:
            threading.Timer(0.2, self.in_buffer.feed, [b"the last words"]).start()

    def recv_ready(self) -> bool:
        ready = super().recv_ready()
        if self._eof and not self.eof_received:
            self.in_buffer.feed(b"the last words")
            self.eof_received = True
        return ready


@pytest.mark.parametrize("eof", [False, True])
def test_the_last_of_the_output_may_come_after_the_exit_status(eof: bool) -> None:
    """Of a script that was silent before, on a node under load."""
    talk = ssh._Talk("node1", LateChannel(eof=eof), b"", 100)
    talk._last_output -= 60.0
    assert talk.until(time.monotonic() + 10)
    assert (bytes(talk.out), talk.status) == (b"the last words", 0)


def test_a_server_that_falls_silent_under_a_script_is_given_up(
    address: NodeAddress, server: OwnSshd
) -> None:
    """Long before the script's deadline; a script that is silent is waited for."""
    with opened(address, patience=2.0) as shell:
        assert shell.run("sleep 6; echo late", deadline=60).text == "late\n"
        began = time.monotonic()
        asleep = threading.Timer(1.0, _signalled, (server, signal.SIGSTOP))
        asleep.start()
        try:
            with pytest.raises(NodeUnreachable, match="the SSH server did not answer for 2"):
                shell.run("sleep 100", deadline=100)
            assert time.monotonic() - began < 20
        finally:
            _signalled(server, signal.SIGCONT)


def _signalled(server: OwnSshd, sign: signal.Signals) -> None:
    for pid in server.connections():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


@pytest.mark.parametrize("moment", ["banner", "login", "session", "command", "stdin"])
def test_a_silent_server_is_given_up(tmp_path: Path, moment: Moment) -> None:
    """Whatever it was asked last; and leaving takes no longer."""
    with silent_server(tmp_path, moment) as address:
        began = time.monotonic()
        with (
            opened(address, patience=1.0) as shell,
            pytest.raises((NodeUnreachable, NodeTimeout), match=r"^node1[^\n]*$"),
        ):
            shell.run("cat", stdin=bytes(32 << 20), deadline=1.0)
        assert time.monotonic() - began < 8
