"""What other programs did to the files of a machine: NUL bytes, line ends, serial numbers."""

from __future__ import annotations

from topologies.identity import is_identity, without_identity
from topologies.importing.draft import Draft
from topologies.importing.notes import NoteKind
from topologies.paths import CPUINFO
from topologies.reading import shortened
from topologies.tree import Link


def clean_texts(draft: Draft) -> None:
    """Remove NUL bytes (which packers leave that trust a stated size, and which some kernels
    wrote), the carriage returns of CRLF, and what identifies the machine."""
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
            draft.note(NoteKind.REPAIRED, shortened(paths), f"{what} taken out")
    _remove_identities(draft)


def _remove_identities(draft: Draft) -> None:
    serials = [path for path in draft.entries if is_identity(path)]
    for path in serials:
        del draft.entries[path]
    if serials:
        draft.note(NoteKind.LEFT_OUT, shortened(serials), "the serial number of a CPU")
    info = draft.entries.get(CPUINFO, "")
    text, changed = ("", ()) if isinstance(info, Link) else without_identity(info)
    if changed:
        draft.entries[CPUINFO] = text
    for name in changed:
        draft.note(NoteKind.LEFT_OUT, f"{CPUINFO}, {name}", "it names one machine: now zeros")
