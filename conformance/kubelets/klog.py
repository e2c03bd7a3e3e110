"""A kubelet's log: read all the time, kept in part, and its error lines parsed.

What belongs here: the text form of klog, structured (``E1121 09:28:00.1 42 kubelet.go:1710] "Failed
to …" err="…"``) and not (up to about 1.20). What never does: what an error means.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from typing import BinaryIO, Final

from conformance.in_effect import in_effect, tells_settings

_LINE: Final = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\]]*\] (?P<text>.*)", re.S)
_ERR: Final = re.compile(r'\berr="(?P<quoted>(?:[^"\\]|\\.)*)"')
#: Text before the error of a CPU manager; the second up to 1.17, where the kubelet then panics.
_CPU_MANAGER: Final = ("start cpu manager error: ", "[cpumanager] static policy invalid state: ")
#: The lines of a program that ends: klog's fatal lines, Go's panics, and what the kubelet logs
#: before ``os.Exit`` (``cmd/kubelet/app/server.go``, ``kubelet.go``, component-base's cli).
_FATAL_LINES: Final = re.compile(
    r"""F\d{4}\ |panic:\ |.*\]\ "?(?:command\ failed|[Ff]ailed\ to\ (?:run\ [Kk]ubelet|
    start\ ContainerManager|validate\ kubelet\ |construct\ |initialize\ internal\ ))""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x(?P<x>[0-9a-f]{2})|u(?P<u>[0-9a-f]{4})|U(?P<U>[0-9a-f]{8})|(?P<c>.))"
)
_SIMPLE: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
}  # fmt: skip
#: Lines that the harness itself causes. Some releases log each request for their pods, and pinproof
#: sends many. A sandbox has no route, no disk and no logs of containers.
_OF_THE_HARNESS: Final = re.compile(
    r"""\]\ "Pod\ status\ updated"|can't\ get\ ip\ address\ of\ node|cannot\ find\ filesystem\ info
    |"Failed\ to\ stat\ container\ log|"failed\ to\ check\ if\ node\ is\ newer""",
    re.VERBOSE,
)
#: The files of the CPU manager, of other managers that decide CPUs, and of the container manager
#: that starts them (``pkg/kubelet/cm``).
_OF_MANAGERS: Final = re.compile(
    r"[IWEF]\d{4} \S+ +\d+ (?:cpu_manager|cpu_assignment|policy(?:_\w+)?|state_\w+|checkpoint\w*|"
    r"topology_manager|scope\w*|memory_manager|container_manager\w*)\.go:\d+\]"
)
#: Logged when the kubelet gets the first pods of a source (``syncLoopIteration``), structured and
#: not. It is logged once even if the source has no pods.
_FIRST_PODS: Final = re.compile(r'SyncLoop (?:ADD" source=|\(ADD, )"(?P<source>\w+)"')
_LONGEST_LINE: Final = 16_384


def unquote(quoted: str) -> str:
    """The text that Go's ``strconv.Quote`` made ``quoted`` of (its quotes left out)."""
    return _ESCAPE.sub(_unescaped, quoted)


def _unescaped(match: re.Match[str]) -> str:
    code = match["x"] or match["u"] or match["U"]
    return chr(int(code, 16)) if code else _SIMPLE.get(match["c"], match["c"])


def is_error(line: str) -> bool:
    """Whether the line is an error, a fatal error or a panic."""
    return (line[:1] in "EF" and _LINE.match(line) is not None) or line.startswith("panic: ")


def is_of_managers(line: str) -> bool:
    """Whether the CPU manager, or a manager that decides CPUs with it, logged this line."""
    return _OF_MANAGERS.match(line) is not None


def message(line: str) -> str:
    """The message of a log line: its ``err`` if it has one, else its text without the header."""
    match = _LINE.match(line)
    text = match["text"] if match else line
    err = _ERR.search(text)
    return unquote(err["quoted"]) if err else text


def gave_up_because(lines: list[str], errors: list[str]) -> str:
    """The reason that a kubelet gave for ending by itself, from its last lines and its last error
    lines; ``""`` if it gave none.

    It is the text after ``start cpu manager error: `` if there is one (the kubelet wraps it:
    ``cm/container_manager_linux.go``), else the last line that only a program which ends logs
    (:data:`_FATAL_LINES`), else the last line, if that is an error or not of klog.
    """
    for line in reversed(errors):
        for marker in _CPU_MANAGER:
            _, found, reason = message(line).partition(marker)
            if found:
                return reason
    for line in reversed(errors):
        if _FATAL_LINES.match(line):
            return message(line)
    last = next((line for line in reversed(lines) if line.strip()), "")
    return message(last) if is_error(last) or not _LINE.match(last) else ""


class Log:
    """The bounded log of one kubelet: its last lines, its last error lines, and the last lines of
    the managers that decide CPUs."""

    def __init__(self, stream: BinaryIO, ring: Callable[[], None]) -> None:
        self._lines: deque[str] = deque(maxlen=400)
        #: Of each of these lines, whether it is a piece of a long one that goes on in the next.
        self._goes_on: deque[bool] = deque(maxlen=400)
        self._errors: deque[str] = deque(maxlen=60)
        self._managers: deque[str] = deque(maxlen=60)
        self._settings: deque[str] = deque(maxlen=10)
        self._sources: set[str] = set()
        self._lock = threading.Lock()
        self._ring = ring
        self._thread = threading.Thread(target=self._drain, args=(stream,), daemon=True)
        self._thread.start()

    def _drain(self, stream: BinaryIO) -> None:
        with stream:
            while raw := stream.readline(_LONGEST_LINE):
                line = raw.decode(errors="replace").rstrip("\n")
                if _OF_THE_HARNESS.search(line):
                    continue
                with self._lock:
                    self._lines.append(line)
                    self._goes_on.append(not raw.endswith(b"\n"))
                    if is_error(line):
                        self._errors.append(line)
                    if is_of_managers(line):
                        self._managers.append(line)
                    if tells_settings(line):
                        self._settings.append(line)
                    if found := _FIRST_PODS.search(line):
                        self._sources.add(found["source"])
        self._ring()

    def finish(self) -> None:
        """Wait until everything is read, at most 10 s; to be called after the kubelet has ended."""
        self._thread.join(timeout=10)

    def has_listed(self, source: str) -> bool:
        """Whether the kubelet has listed the pods of ``"api"`` or ``"file"``."""
        with self._lock:
            return source in self._sources

    def lines(self) -> list[str]:
        """The last lines; long lines, which were read in pieces, are joined."""
        with self._lock:
            pieces = list(zip(self._lines, self._goes_on, strict=True))
        whole, open_ended = list[str](), False
        for piece, goes_on in pieces:
            if open_ended:
                whole[-1] += piece
            else:
                whole.append(piece)
            open_ended = goes_on
        return whole

    def gave_up_because(self) -> str:
        with self._lock:
            return gave_up_because(list(self._lines), list(self._errors))

    def in_effect(self) -> str:
        """See :func:`conformance.in_effect.in_effect`; for the kubelet's last start."""
        with self._lock:
            return in_effect(list(self._settings))

    def excerpt(self, tail: int = 25) -> str:
        """The lines of the managers and the error lines, then the last ``tail`` lines."""
        with self._lock:
            early = [*list(self._managers)[-tail:], *list(self._errors)[-tail:]]
            lines = list(self._lines)[-tail:]
        shown = [line for line in dict.fromkeys(early) if line not in lines]
        return "\n".join([*shown, *(["…"] if shown and lines else []), *lines])
