"""Whatever answers at a node's port: one line that says what happened, in time; nothing stays."""

from __future__ import annotations

import re
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

import paramiko
import pytest

from hil.shell import NodeTimeout, NodeUnfit, NodeUnreachable
from tests.hil.conftest import Says
from tests.hil.test_access_shells import opened
from tests.support import hostile_ssh as hostile
from tests.support.hostile_ssh import BANNER, Serve, plain, served, ssh

_CLOSED: Final = "the host closed the connection before an SSH server named itself"
_NO_ANSWER: Final = "no SSH server answered within \\d s"
_NO_KEYS: Final = "the SSH server closed the connection while keys were exchanged"
_NO_ALGORITHM: Final = ".*no acceptable kex algorithm.: permit a current one"
_NO_STATUS: Final = "the SSH server ended a command without its exit status"
_NO_SHELL: Final = "the login shell runs no POSIX shell .* it said"
_TOO_MUCH: Final = "a command wrote more than 65536 bytes"

#: What each is told as, after the node and its address.
SERVERS: Final[dict[str, tuple[Serve, str]]] = {
    "silent at once": (plain(hostile.silent), _NO_ANSWER),
    "silent after the banner": (
        plain(partial(hostile.silent, said=BANNER)),
        "the SSH server did not exchange keys within \\d s",
    ),
    "closes at once": (plain(hostile.closes), _CLOSED),
    "closes after the banner": (plain(partial(hostile.closes, said=BANNER)), _NO_KEYS),
    "half closes after the banner": (plain(hostile.half_closes), _NO_KEYS),
    "a web server": (plain(hostile.http), _CLOSED),
    "another protocol": (
        plain(partial(hostile.silent, said=b"220 mail ESMTP\r\n")),
        f"{_NO_ANSWER}: .* another service may have this port",
    ),
    "SSH 1": (
        plain(partial(hostile.silent, said=b"SSH-1.5-old\r\n")),
        "Incompatible version .1.5 instead of 2.0.$",
    ),
    "a banner without end": (plain(hostile.endless), _NO_ANSWER),
    "lines without end": (
        plain(partial(hostile.endless, said=b"hello\r\n")),
        "what answers is not an SSH server of version 2: .*hello",
    ),
    "a banner by the byte": (plain(hostile.drips), _NO_ANSWER),
    "random bytes": (plain(hostile.noise), "the SSH server's messages cannot be read"),
    "algorithms that are cut off": (plain(hostile.strange), _NO_ALGORITHM),
    "an old key exchange": (ssh(kex="diffie-hellman-group1-sha1"), _NO_ALGORITHM),
    "another host key": (ssh(other_key=True), "its host key .* is another than the one in"),
    "denies the login": (
        ssh(denies="login"),
        "authentication failed: the SSH server accepts none of the keys",
    ),
    "takes passwords alone": (
        ssh(denies="keys"),
        "authentication failed: the SSH server permits password; keys alone",
    ),
    "closes in the login": (
        ssh(closes="login"),
        "the SSH server closed the connection during the login",
    ),
    "denies a session": (
        ssh(denies="session"),
        "the SSH server refuses to open a session .Administratively prohibited.",
    ),
    "closes at the session": (ssh(closes="session"), "the connection broke: the host closed it"),
    "denies a command": (ssh(denies="command"), "the SSH server refuses to run a command"),
    "closes at the command": (ssh(closes="command"), "the connection broke"),
    "a command that never ends": (
        ssh(command=hostile.never_ends),
        "the SSH server did not begin a command in 2.5 s",
    ),
    "output without end": (ssh(command=hostile.floods), _TOO_MUCH),
    "messages without end": (ssh(command=hostile.floods_aside), _TOO_MUCH),
    "output by the byte": (ssh(command=hostile.drips_output), "a command took longer than 3 s"),
    "no exit status": (ssh(command=hostile.says(b"", None)), _NO_STATUS),
    "a command that is killed": (ssh(command=hostile.killed), _NO_STATUS),
    # What they decrypt to may be the length of a packet that never comes.
    "random bytes in a command": (
        ssh(command=hostile.garbles),
        "the connection broke|the SSH server did not answer",
    ),
    "half closes in a command": (
        ssh(command=hostile.half_closes_while_it_runs),
        "the connection broke",
    ),
    "files alone": (
        ssh(command=hostile.says(b"This service allows sftp connections only.\n")),
        f"{_NO_SHELL} This service",
    ),
    "nologin": (
        ssh(command=hostile.says(b"This account is currently not available.\n")),
        f"{_NO_SHELL} This account",
    ),
}


def connections() -> list[threading.Thread]:
    """The threads of paramiko on this side: the servers are in server mode."""
    return [
        one
        for one in threading.enumerate()
        if isinstance(one, paramiko.Transport) and not one.server_mode
    ]


@pytest.mark.parametrize("name", SERVERS)
def test_a_hostile_server_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    serve, said = SERVERS[name]
    began = time.monotonic()
    with served(tmp_path, serve) as address:
        with (
            opened(address, patience=2.0) as shell,
            pytest.raises((NodeUnreachable, NodeTimeout, NodeUnfit)) as raised,
        ):
            shell.run("true", deadline=3.0, limit=1 << 16)
        assert re.match(rf"node1( \(ssh://root@127\.0\.0\.1:\d+\))?: ({said})", str(raised.value))
        assert str(raised.value).isprintable()
        for one in connections():
            one.join(2.0)
        assert not connections()
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "name", ["a web server", "denies the login", "denies a command", "nologin"]
)
def test_a_hostile_server_is_no_verdict(tmp_path: Path, name: str, says: Says) -> None:
    serve, said = SERVERS[name]
    with served(tmp_path, serve) as address:
        known, key = str(address.known_hosts), str(address.identity[0])
        status, _, error = says("probe", address.url, "--known-hosts", known, "--key", key)
    assert status == 3
    assert len(re.findall(said, error)) == 1
    assert "Traceback" not in error
