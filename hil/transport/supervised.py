"""How a script runs on a node so that nothing of it stays: the commands that start, watch and end
it.

What belongs here: the command line that a login shell of any kind is given, and what its output
means. What never does: a connection (:mod:`hil.transport.ssh`) or a process
(:mod:`hil.transport.local`).

On the node, one shell (the *supervisor*) starts the script in a session of its own and beside it a
*watcher*, which kills the session when the deadline has passed, and when the process that the
command came from is gone: the SSH server's for this connection, or the runner itself. When the
script ends, whatever it left running in its session is killed. Its first output is a token on
stdout and stderr, so that greetings of a login shell are kept apart from its output.

The script has escapes for what login shells read in different ways. ``printf``, which every shell
has built in, undoes them: on an emulated node another program would cost every round trip
milliseconds.

A password for sudo is the first line of stdin, and the run's token the second. sudo reads the first
if it wants a password at all; the supervisor skips what is left, up to the token. So the password
is no argument, no variable of the environment and no file, on the runner and on the node.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
from dataclasses import dataclass
from typing import Final

from conformance.secret import Secret
from hil.shell import Done, NodeUnfit
from topologies.errors import one_line

#: Longest script in bytes, with its escapes: the kernel bounds one argument at 128 KiB
#: (MAX_ARG_STRLEN). Files go by stdin.
LONGEST: Final = 90_000
#: Seconds that the watcher on the node waits longer than the runner, which should act first.
_GRACE: Final = 2
_PATH: Final = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin:/opt/bin"
    ":/var/lib/rancher/rke2/bin"
)

#: What sh, csh and fish do not all read literally in single quotes.
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
#: The outer shell knows its parent, which sudo's processes would hide. sudo's messages are read.
_OUTER: Final = (
    'LC_ALL=C; export LC_ALL; exec @sudo@ /bin/sh -c "$1" sh "$PPID" "$2" "$3" "$4" "$5"'
)
#: Skips stdin up to the token; to its end where there is none.
_PASS_OVER: Final = 'while IFS= read -r l && [ "$l" != "$5" ]; do :; done; unset l; '
#: The user's id, in $u. The owner of the kernel's first process is root.
_WHO: Final = "u=0; [ -O /proc/1 ] 2>/dev/null || u=$(id -u)"
_NOT_ROOT: Final = 77
GIVE_SUDO: Final = (
    "the login user is {user}, not root: give --sudo, or set sudo = true in the inventory"
)
#: What sudo and sudo-rs say, in the locale C.
_WRONG: Final = re.compile(r"incorrect (password|authentication) attempt|no password was provided")
_FORBIDS: Final = re.compile(r"not allowed to (execute|run)|not in the sudoers|may not run sudo")
_WANTS: Final = re.compile(r"password is required|authentication is required|terminal is required")


@dataclass(frozen=True, slots=True)
class Sudo:
    """How a login becomes root. ``asks_again``: sudo asks for the password even if it remembers it,
    and nothing follows that on stdin, so that a wrong password is one wrong attempt and not
    three."""

    password: Secret | None = None
    asks_again: bool = False

    @property
    def words(self) -> str:
        """The words before the command that root is to run."""
        if self.password is None:
            return "sudo -n"
        return f'sudo {"-k " if self.asks_again else ""}-S -p ""'

    @property
    def line(self) -> bytes:
        """What sudo reads."""
        return b"" if self.password is None else self.password.line


@dataclass(frozen=True, slots=True)
class Supervised:
    """One run of a script, which has its escapes: its command, what comes before its stdin, and how
    its output is read."""

    token: str
    script: str
    deadline: float
    sudo: Sudo | None = None

    @classmethod
    def of(
        cls, script: str, deadline: float, *, root: bool, sudo: Sudo | None = None
    ) -> Supervised:
        """``root``: the script must run as root. ``sudo``: the login is not root. Raises
        ``ValueError`` for one longer than :data:`LONGEST`."""
        token = f"pinproof-{secrets.token_hex(8)}"
        who = _WHO if root else "u=0"
        guard = f'case $u in 0) echo "{token} $$";; *) echo "{token} $$ $(id -un)";; esac'
        refuse = f"; [ $u = 0 ] || exit {_NOT_ROOT}" if root else ""
        whole = f'{who}; {guard}; echo "{token}" >&2{refuse}; unset u\n{script}'
        run = cls(token, _escaped(whole), deadline, sudo)
        if len(run.script) > LONGEST:
            raise ValueError(f"a script of more than {LONGEST} bytes: send files by stdin")
        return run

    def arguments(self, parent: int) -> list[str]:
        """The arguments that run it on this host, as long as the process ``parent`` lives."""
        return ["/bin/sh", "-c", _SUPERVISE, "sh", str(parent), *self._words()]

    def command(self, parent: str = "''") -> str:
        """The command that runs it through any login shell. ``parent``: a word of that shell for
        the process that it ends with; without one, that is the process that runs the shell."""
        first, words = [_SUPERVISE, "sh"], self._words()
        if self.sudo is not None:
            before = _PASS_OVER if self.sudo.password else ""
            first = [_OUTER.replace("@sudo@", self.sudo.words), "sh", before + _SUPERVISE]
            words = [*words, self.token]
        quoted = [*map(shlex.quote, first), *([] if self.sudo else [parent])]
        return f"exec /bin/sh -c {' '.join([*quoted, *map(shlex.quote, words)])}"

    @property
    def before(self) -> bytes:
        """What comes on stdin before the script's own."""
        if self.sudo is None or self.sudo.password is None:
            return b""
        return self.sudo.line + (b"" if self.sudo.asks_again else self.token.encode() + b"\n")

    def _words(self) -> list[str]:
        return [str(math.ceil(self.deadline) + _GRACE), self.script, _WATCH]

    def killing(self, stdout: bytes) -> str:
        """The command that kills it, ``""`` where its number is not known yet. Its stdin is what
        sudo reads (:attr:`Sudo.line`)."""
        found = self._mark(stdout)
        if found is None or not found[0]:
            return ""
        sudo = f"{self.sudo.words} " if self.sudo else ""
        return f"exec {sudo}/bin/sh -c '{_KILL}' sh {found[0]}"

    def done(
        self, status: int, stdout: bytes, stderr: bytes, *, node: str, no_root: str = GIVE_SUDO
    ) -> Done:
        """The result; raises :class:`NodeUnfit` where it did not run at all. ``no_root``: the error
        for a user who is not root."""
        found = self._mark(stdout)
        if found is None:
            raise self._refusal(node, status, stdout, stderr)
        _, user, rest = found
        if user:
            said = no_root if self.sudo is None else "sudo makes the login {user}, not root"
            raise NodeUnfit(f"{node}: {said.format(user=one_line(user))}")
        mark = self.token.encode() + b"\n"
        if 128 < status <= 192:
            status = 128 - status  # a shell reports a signal as 128 and its number
        return Done(status, rest, stderr.partition(mark)[2])

    def _mark(self, stdout: bytes) -> tuple[str, str, bytes] | None:
        """Process, user that is not root, and what follows."""
        _, token, after = stdout.partition(self.token.encode() + b" ")
        line, end, rest = after.partition(b"\n")
        if not token or not end:
            return None
        pid, _, user = line.decode("utf-8", "replace").partition(" ")
        return (pid if pid.isascii() and pid.isdigit() else "", user, rest)

    def _refusal(self, node: str, status: int, stdout: bytes, stderr: bytes) -> NodeUnfit:
        heard = stderr.decode("utf-8", "replace")
        said = one_line((heard or stdout.decode("utf-8", "replace")).strip()[-200:]) or "nothing"
        if _FORBIDS.search(heard):
            return NodeUnfit(
                f"{node}: sudo does not permit this login to run /bin/sh as root", evidence=heard
            )
        if b"sudo:" not in stderr:
            return NodeUnfit(
                f"{node}: the login shell runs no POSIX shell (status {status}): it said {said}"
            )
        asked = self.sudo is not None and self.sudo.password is not None
        if asked and _WRONG.search(heard):
            return NodeUnfit(f"{node}: sudo says that the password is wrong", evidence=heard)
        if not asked and _WANTS.search(heard):
            return NodeUnfit(
                f"{node}: sudo needs a password: --ask-sudo-password asks for it", evidence=heard
            )
        return NodeUnfit(f"{node}: sudo refuses: {said}", evidence=heard)


def _escaped(script: str) -> str:
    """In ASCII, for ``printf %b``."""
    data = script.encode("utf-8", "surrogateescape")
    return _ESCAPED.sub(lambda found: b"\\0%03o" % ord(found[0]), data).decode()
