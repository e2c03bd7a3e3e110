"""Making a stream's text fit to be shown: nothing in it is trusted.

Each writer escapes for its own format; these functions remove what no format may carry (terminal
commands, characters XML forbids, marks that reorder a line).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

# Whole terminal sequences first, so that "ESC[31m" leaves nothing behind: control strings (OSC,
# DCS, SOS, PM, APC) up to their end, CSI in its 7 and 8 bit forms, then two-character escapes.
_SEQUENCE: Final = re.compile(
    "\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
)
# C0 but tab and newline, DEL, C1, line and paragraph separators, the bidirectional marks and
# overrides (they make a line read as another one), lone surrogates, and XML's two non-characters.
_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_NEWLINE: Final = re.compile("\r\n?")
_SPACE: Final = re.compile(r"\s+")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def clean(text: str) -> str:
    """The text without terminal sequences, control characters (tab and newline stay), marks that
    reorder a line, and characters that XML forbids; every line end is one newline."""
    return _FORBIDDEN.sub("", _SEQUENCE.sub("", _NEWLINE.sub("\n", text)))


def line(text: str) -> str:
    """The text, clean, as one line: every run of white space is one blank."""
    return _SPACE.sub(" ", clean(text)).strip()


def head(text: str, limit: int) -> str:
    """At most ``limit`` characters from the start; says how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[… {len(text) - limit} more characters: see result.jsonl]"


def tail(text: str, limit: int) -> str:
    """At most ``limit`` characters from the end; says how many were left out."""
    if len(text) <= limit:
        return text
    return f"[{len(text) - limit} characters before this: see result.jsonl …]\n{text[-limit:]}"


def many(count: int, what: str) -> str:
    """As ``1 socket``, ``2 sockets``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def few(names: Sequence[str], most: int = 5, *, between: str = ", ") -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


def web_link(url: str) -> str:
    """The URL if it is http or https without anything odd in it, else ``""``."""
    url = url.strip()
    return url if re.fullmatch(r"https?://[!-~]+", url, re.IGNORECASE | re.ASCII) else ""


def utc(text: str) -> datetime | None:
    """An ISO 8601 time, in UTC; ``None`` if the text is not one. One without a zone is UTC, as the
    stream's contract says."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def when(text: str) -> str:
    """An ISO 8601 time as a person reads it, in UTC; any other text as one line."""
    moment = utc(text)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else line(text)


def cpus(text: str, among: Collection[int]) -> frozenset[int]:
    """Those CPUs ``among`` the given ones that a CPU list (``"0-3,8"``) names.

    Pieces that are neither numbers nor ranges are ignored: the list is drawn here, not judged, and
    its text stands beside the picture.
    """
    named: set[int] = set()
    for piece in text.split(","):
        if match := _RANGE.fullmatch(piece.strip()):
            low, high = int(match[1]), int(match[2] or match[1])
            named.update(cpu for cpu in among if low <= cpu <= high)
    return frozenset(named)


_LABEL: Final = re.compile(r"\s*(?:\d+\. |\w+ {2,}|\w+ \w+ {2,})?")


def wrapped(text: str, width: int) -> str:
    """One line as several of at most ``width``, broken at blanks and after commas; those that
    follow stand under the text they continue, past its label."""
    label = _LABEL.match(text)
    indent = " " * min(label.end() if label else 0, width // 2)
    return _Wrapper(width, subsequent_indent=indent, break_on_hyphens=False).fill(text).rstrip()


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines after commas too: a list of CPUs has no blanks."""

    wordsep_simple_re = re.compile(r"([^\s,]*,|\s+)")


_MARKDOWN: Final = re.compile(r"[\\`*_{}\[\]()#+!|~<>&@$]|:(?=//)")


def markdown(text: str) -> str:
    """The text as one line of Markdown that shows it as it is: no markup, link, mention, HTML or
    table cell can come of it."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", line(text))


def code(text: str) -> str:
    """The text as a fenced block of Markdown, whatever fences are in it."""
    shown = clean(text).strip("\n")
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"
