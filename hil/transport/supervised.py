"""How a script runs on a node so that nothing of it stays: the words that start, watch and end it.

What belongs here: the command line that a login shell of any kind is given, and what its output
means. What never does: a connection (:mod:`hil.transport.ssh`) or a process
(:mod:`hil.transport.local`).

On the node, one shell (the *supervisor*) starts the script in a session of its own and beside it a
*watcher*, which kills the session when the deadline has passed, and when the process that the
command came from is gone: the SSH server's for this connection, or the runner itself. When the
script ends, whatever it left running in its session is killed. Its first words are a token on
stdout and stderr, so that greetings of a login shell are kept apart from its output.

The script travels with escapes for what login shells see in different ways; ``printf`` undoes them,
which every shell has built in. On an emulated node each program that this starts would cost every
round trip milliseconds.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
from dataclasses import dataclass
from typing import Final

from hil.shell import Done, NodeUnfit
from topologies.errors import one_line

#: Longest script in bytes, with its escapes: the kernel bounds one argument at 128 KiB
#: (MAX_ARG_STRLEN). Files go by stdin.
LONGEST: Final = 90_000
#: Seconds that the watcher on the node waits longer than the runner, who knows better.
_GRACE: Final = 2
_PATH: Final = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin:/opt/bin"
    ":/var/lib/rancher/rke2/bin"
)

#: What does not stand for itself inside of single quotes in sh, csh and fish alike.
_ESCAPED: Final = re.compile(rb"[^ -~]|['\\!]")
# One line each, without ' \ and !, for the same reason.
_WATCH: Final = (
    "n=0; while [ $n -lt $2 ] && { kill -0 $1 || [ -d /proc/$1 ]; }; do "
    "sleep 1; n=$((n+1)); done; kill -9 -$3 $3"
)
_SUPERVISE: Final = (
    "LC_ALL=C; PATH=$PATH:" + _PATH + "; export LC_ALL PATH; "
    's=$(printf %b "$3") || exit 126; exec 3<&0; '
    'setsid sh -c "$s" <&3 3<&- & c=$!; '
    'setsid sh -c "$4" sh "${1:-$PPID}" "$2" "$c" </dev/null >/dev/null 2>&1 3<&- & w=$!; '
    "exec 3<&-; wait $c; r=$?; kill -9 -$w $w -$c >/dev/null 2>&1; exit $r"
)
_KILL: Final = "kill -9 -$1 $1"
#: The outer shell knows its parent, which sudo's processes would hide.
_OUTER: Final = 'exec sudo -n /bin/sh -c "$1" sh "$PPID" "$2" "$3" "$4"'
#: Who it runs as, in $u. Where the kernel's first process is one's own, one is root.
_WHO: Final = "u=0; [ -O /proc/1 ] 2>/dev/null || u=$(id -u)"
_NOT_ROOT: Final = 77


@dataclass(frozen=True, slots=True)
class Supervised:
    """One run of a script, which has its escapes: the command of it, and how to read what it
    wrote."""

    token: str
    script: str
    deadline: float

    @classmethod
    def of(cls, script: str, deadline: float, *, root: bool) -> Supervised:
        """``root``: the script is not to run as anybody else. Raises ``ValueError`` for one longer
        than :data:`LONGEST`."""
        token = f"pinproof-{secrets.token_hex(8)}"
        who = _WHO if root else "u=0"
        guard = f'case $u in 0) echo "{token} $$";; *) echo "{token} $$ $(id -un)";; esac'
        refuse = f"; [ $u = 0 ] || exit {_NOT_ROOT}" if root else ""
        whole = f'{who}; {guard}; echo "{token}" >&2{refuse}; unset u\n{script}'
        run = cls(token, _escaped(whole), deadline)
        if len(run.script) > LONGEST:
            raise ValueError(f"a script of more than {LONGEST} bytes: send files by stdin")
        return run

    def arguments(self, parent: int) -> list[str]:
        """To run it on this host, as long as the process ``parent`` lives."""
        return ["/bin/sh", "-c", _SUPERVISE, "sh", str(parent), *self._words()]

    def command(self, *, sudo: bool) -> str:
        """To run it through a login shell of whatever kind."""
        first = [_OUTER, "sh", _SUPERVISE] if sudo else [_SUPERVISE, "sh", ""]
        return f"exec /bin/sh -c {' '.join(map(shlex.quote, [*first, *self._words()]))}"

    def _words(self) -> list[str]:
        return [str(math.ceil(self.deadline) + _GRACE), self.script, _WATCH]

    def killing(self, stdout: bytes, *, sudo: bool) -> str:
        """The command that kills it, ``""`` where it has not said who it is."""
        found = self._mark(stdout)
        if found is None or not found[0]:
            return ""
        return f"exec {'sudo -n ' if sudo else ''}/bin/sh -c '{_KILL}' sh {found[0]}"

    def done(self, status: int, stdout: bytes, stderr: bytes, *, node: str) -> Done:
        """What it came to; raises :class:`NodeUnfit` where it did not run at all."""
        found = self._mark(stdout)
        if found is None:
            raise _refusal(node, status, stdout, stderr)
        _, user, rest = found
        if user:
            raise NodeUnfit(
                f"{node}: the login user is {one_line(user)}, not root: set sudo = true"
            )
        mark = self.token.encode() + b"\n"
        return Done(_signalled(status), rest, stderr.partition(mark)[2])

    def _mark(self, stdout: bytes) -> tuple[str, str, bytes] | None:
        """Process, user that is not root, and what follows."""
        _, token, after = stdout.partition(self.token.encode() + b" ")
        line, end, rest = after.partition(b"\n")
        if not token or not end:
            return None
        pid, _, user = line.decode("utf-8", "replace").partition(" ")
        return (pid if pid.isascii() and pid.isdigit() else "", user, rest)


def _escaped(script: str) -> str:
    """In ASCII, for ``printf %b``."""
    data = script.encode("utf-8", "surrogateescape")
    return _ESCAPED.sub(lambda found: b"\\0%03o" % ord(found[0]), data).decode()


def _signalled(status: int) -> int:
    """A shell tells of signals by 128 and more."""
    return 128 - status if 128 < status <= 192 else status


def _refusal(node: str, status: int, stdout: bytes, stderr: bytes) -> NodeUnfit:
    said = one_line((stderr or stdout).decode("utf-8", "replace").strip()[-200:]) or "nothing"
    if b"sudo:" in stderr:
        return NodeUnfit(
            f"{node}: sudo needs a password: {said}",
            evidence=stderr.decode("utf-8", "replace"),
        )
    return NodeUnfit(
        f"{node}: the login shell runs no POSIX shell (status {status}): it said {said}"
    )
