"""What other programs did to the files of a machine: NUL bytes, line ends, serial numbers."""

from __future__ import annotations

import re
from typing import Final

from topologies.importing.draft import Draft
from topologies.importing.notes import NoteKind
from topologies.paths import CPUINFO
from topologies.tree import Link

_SERIAL: Final = re.compile(r"^(Serial[ \t]*:[ \t]*)(?!0*$)\S.*$", re.MULTILINE)


def clean_texts(draft: Draft) -> None:
    """Take away NUL bytes (which a file's stated size leaves behind, and some kernels wrote) and
    the carriage returns of CRLF; blank the serial number of a board."""
    nuls, returns = [], []
    for path, text in draft.entries.items():
        if isinstance(text, Link):
            continue
        if "\0" in text:
            nuls.append(path)
            text = text.replace("\0", "")
        if "\r\n" in text or text.endswith("\r"):
            returns.append(path)
            text = text.replace("\r\n", "\n").removesuffix("\r")
        draft.entries[path] = text
    for paths, what in ((nuls, "NUL bytes"), (returns, "carriage returns of CRLF")):
        if paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            draft.note(NoteKind.REPAIRED, f"{paths[0]}{more}", f"{what} taken out")
    info = draft.entries.get(CPUINFO, "")
    if not isinstance(info, Link) and _SERIAL.search(info):
        draft.entries[CPUINFO] = _SERIAL.sub(r"\g<1>0000000000000000", info)
        draft.note(NoteKind.LEFT_OUT, f"{CPUINFO}, Serial", "it names one board")
