"""``--ask-sudo-password``: a login that is not root, a real SSH server and a real sudo.

The server has namespaces of its own, with accounts, a sudoers file and processes of its own; the
node is this host otherwise, and it is only read.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conformance import secret
from hil.shell import NodeTimeout, NodeUnfit
from hil.transport import NodeAddress, connect, connected
from hil.transport.inventory import SUDO_PASSWORD
from hil.transport.supervised import Sudo, Supervised
from tests.cli.running import Done, here, python
from tests.support.sshd import Operator, OwnSshd, own_sshd
from tests.support.until import until

#: With everything in it that a shell would read otherwise.
PASSWORD = "correct 'horse\" $HOME \\n`!#"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSshd]:
    with own_sshd(tmp_path_factory.mktemp("sshd"), operator=Operator(PASSWORD)) as running:
        yield running


@pytest.fixture
def address(server: OwnSshd) -> NodeAddress:
    return server.address()


@pytest.fixture
def known() -> Iterator[None]:
    """The user was asked, and gave the password."""
    secret.keep(SUDO_PASSWORD, PASSWORD)
    yield
    secret.forget(SUDO_PASSWORD)


@pytest.mark.usefixtures("known")
def test_scripts_run_as_root_with_their_own_stdin(address: NodeAddress) -> None:
    """Also a second one, of which sudo may remember the password."""
    with connected(address) as shell:
        for _ in range(2):
            done = shell.run("id -u; cat; exit 3", stdin=b"in\nput\n")
            assert (done.status, done.text) == (3, "0\nin\nput\n")


@pytest.mark.usefixtures("known")
def test_what_sudo_does_not_read_does_not_reach_the_script(tmp_path: Path) -> None:
    """An entry that permits everything without a password."""
    operator = Operator(PASSWORD, permits="(ALL:ALL) NOPASSWD: ALL")
    with own_sshd(tmp_path, operator=operator) as server, connected(server.address()) as shell:
        assert shell.run("id -u; cat", stdin=b"input").text == "0\ninput"
        assert PASSWORD not in shell.run("set; env").text


def test_a_wrong_password_is_one_attempt_and_one_line(
    address: NodeAddress, server: OwnSshd, known: None
) -> None:
    """An account may be locked after three."""
    secret.keep(SUDO_PASSWORD, "wrong")
    with pytest.raises(NodeUnfit) as caught:
        connect(address)
    assert str(caught.value) == "node1: sudo says that the password is wrong"
    assert "1 incorrect password attempt" in caught.value.evidence


def test_a_login_that_may_not_become_root_is_told(tmp_path: Path, known: None) -> None:
    operator = Operator(PASSWORD, permits="(ALL) /bin/true")
    message = "does not permit this login to run /bin/sh"
    with own_sshd(tmp_path, operator=operator) as server, pytest.raises(NodeUnfit, match=message):
        connect(server.address())


@pytest.mark.usefixtures("known")
def test_no_process_has_the_password_in_its_words_or_environment(address: NodeAddress) -> None:
    """Neither here nor on the node, while a script runs."""
    with connected(address) as shell:
        folder = shell.run("mktemp -d").text.strip()
        script = f"touch {folder}/here; until [ -e {folder}/end ]; do sleep 0.05; done"
        running = threading.Thread(target=shell.run, args=(script,))
        running.start()
        try:
            assert until(Path(folder, "here").exists), "the script does not run"
            assert not list(processes_with(PASSWORD))
            assert list(processes_with(folder))  # one that looks does see
        finally:
            shell.run(f"touch {folder}/end")
            running.join()
            shell.run(f"rm -r {folder}")


def processes_with(text: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                if text.encode() in (folder / name).read_bytes():
                    yield int(folder.name)
            except OSError:
                continue


@pytest.mark.usefixtures("known")
def test_a_deadline_ends_what_root_runs(address: NodeAddress) -> None:
    """Which the login itself could not kill."""
    with connected(address) as shell:
        with pytest.raises(NodeTimeout):
            shell.run("exec sleep 61.0725", deadline=1)
        assert until(lambda: not list(processes_with("61.0725")), 5)


def test_a_password_prints_as_nothing() -> None:
    run = Supervised.of("true", 5, root=True, sudo=Sudo(secret.Secret(PASSWORD)))
    assert "horse" not in repr(run)
    assert "horse" not in run.command()
    assert b"horse" in run.before


def test_a_root_login_needs_no_sudo(known: None) -> None:
    """Nor is the password sent to it."""
    from hil.transport.inventory import _sudo

    assert _sudo(NodeAddress("node1", "ssh://root@a"), "root") is None
    assert _sudo(NodeAddress("node1", "ssh://root@a", sudo=True), "root") == Sudo()


def test_processes_of_a_run_get_it_through_their_pipe(tmp_path: Path) -> None:
    """Those of pytest-xdist."""
    (tmp_path / "pytest.ini").touch()  # no settings of a folder above
    (tmp_path / "test_worker.py").write_text(
        "import os\n"
        "from conformance.secret import kept\n"
        "def test_it(pytestconfig):\n"
        f"    assert kept('sudo').reveal() == {PASSWORD!r}\n"
        "    assert 'horse' not in repr(pytestconfig.workerinput)\n"
        "    assert 'horse' not in open('/proc/self/cmdline').read() + repr(os.environ)\n"
    )
    code = (
        "import sys, pytest\nfrom conformance.secret import keep\n"
        f"keep('sudo', {PASSWORD!r})\n"
        "sys.exit(pytest.main(['-n1', '-q', '-p', 'no:cacheprovider']))"
    )
    (tmp_path / "main.py").write_text(code)
    done = python("main.py", cwd=tmp_path, status=0)
    assert "1 passed" in done.stdout


@pytest.fixture
def inventory(server: OwnSshd, tmp_path: Path) -> Path:
    """Of this server's node."""
    path = tmp_path / "lab.toml"
    path.write_text(
        f'[[node]]\nname = "node1"\nurl = "{server.url}"\nsudo = true\n'
        f'identity = "{server.key}"\nknown_hosts = "{server.known_hosts}"\n'
    )
    return path


@pytest.fixture
def pinproof(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Done]]:
    """Runs these words in this process, with this text on stdin."""

    def run(words: Sequence[str], stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        named = (one.replace("INVENTORY", str(inventory)) for one in words)
        return here(*named, cwd=inventory.parent, COLUMNS="200")

    yield run
    secret.forget(SUDO_PASSWORD)


#: Each command, and what it says of this host once it is root there.
COMMANDS = {
    "probe": (["probe", "INVENTORY"], 0, "distribution"),
    "restore": (["restore", "INVENTORY"], 0, "node1: nothing to restore"),
    "run": (["run", "--subject", "node:INVENTORY"], 3, "kubelet"),
    "dry run": (["run", "--subject", "node:INVENTORY", "--dry-run"], 3, "kubelet"),
    "certify": (["certify", "INVENTORY"], 3, "kubelet"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_ask_for_it(name: str, pinproof: Callable[..., Done], tmp_path: Path) -> None:
    """The node has no kubelet; that this is said shows that it was asked as root."""
    words, status, says = COMMANDS[name]
    done = pinproof([*words, "--ask-sudo-password"], f"{PASSWORD}\nmore\n")
    assert (done.returncode, "sudo" in done.stderr) == (status, False), done.stderr
    assert says in done.stdout + done.stderr
    assert "horse" not in done.stdout + done.stderr
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"horse" not in path.read_bytes()


def test_several_nodes_are_certified_with_one_answer(
    server: OwnSshd, pinproof: Callable[..., Done], tmp_path: Path
) -> None:
    """Each by a process of its own, which reads it from its stdin."""
    two = ["INVENTORY#node1", f"ssh://operator@localhost:{server.port}"]
    done = pinproof(["certify", *two, "-K", "--report", "out"], PASSWORD)
    assert "node1: no certificate: pinproof: node1: " in done.stderr
    log = Path(tmp_path, "out/node1/certify.log").read_text()
    assert "kubelet" in log
    assert "password" not in log


@pytest.mark.parametrize("name", ["probe", "restore", "run", "certify"])
def test_a_node_that_wants_one_and_got_none_names_the_option(
    name: str, pinproof: Callable[..., Done]
) -> None:
    done = pinproof(COMMANDS[name][0])
    assert done.returncode == 3
    said = done.stderr.strip().splitlines()[-1]
    assert said == "pinproof: node1: sudo needs a password: --ask-sudo-password asks for it"


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["probe", "INVENTORY"], "\n", "--ask-sudo-password: no password was given.*"),
        (["run"], "", "--ask-sudo-password is for real nodes .node:….*, not for reference.*"),
    ],
    ids=["no answer", "no node"],
)
def test_without_the_password_there_is_one_line(
    words: list[str], stdin: str, said: str, pinproof: Callable[..., Done]
) -> None:
    done = pinproof([*words, "-K"], stdin)
    assert done.returncode == 2
    assert re.fullmatch(f"pinproof: {said}", done.stderr.strip().splitlines()[-1])


@pytest.mark.needs("ptys")
def test_a_terminal_shows_nothing_of_it(inventory: Path) -> None:
    import pty

    command = [sys.executable, "-m", "pinproof", "restore", str(inventory), "-K"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, command)
    heard = b""
    try:
        while b"sudo password: " not in heard:
            heard += os.read(terminal, 1000)
        os.write(terminal, PASSWORD.encode() + b"\n")
        while chunk := _read(terminal):
            heard += chunk
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, heard
    assert b"nothing to restore" in heard
    assert b"horse" not in heard


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1000)
    except OSError:  # the other side is closed
        return b""
