"""What tells one machine from its twins, taken out of a capture.

Most of it is never read (:mod:`topologies.capturing.scope`): serial numbers of CPUs
(``topology/ppin``), host name, MAC addresses and machine ids lie in other files. ``/proc/cpuinfo``
is where some architectures print it among the rest: ``Serial`` on ARM boards, ``identification``
(``ident`` from 6.1) with the serial number of the machine on s390, ``system serial number`` on
Alpha. Letters and digits of such a value become zeros, so that the text keeps its form.
"""

from __future__ import annotations

import re
from typing import Final

#: A key and its value, up to the next comma or the end of the line.
_IDENTITY: Final = re.compile(
    r"(?P<key>\b(?:[\w ]*serial(?: number)?|identification|ident|ppin|[\w ]*uuid))"
    r"(?P<between>[ \t]*[:=][ \t]*)(?P<value>[^,\n]*)",
    re.IGNORECASE,
)


def without_identity(cpuinfo: str) -> tuple[str, tuple[str, ...]]:
    """``cpuinfo`` with identities as zeros, and the names of the fields that were so changed."""
    changed: dict[str, None] = {}

    def zeros(found: re.Match[str]) -> str:
        blank = re.sub(r"[^\W_]", "0", found["value"])
        if blank != found["value"]:
            changed.setdefault(found["key"].strip())
        return found["key"] + found["between"] + blank

    return _IDENTITY.sub(zeros, cpuinfo), tuple(changed)
