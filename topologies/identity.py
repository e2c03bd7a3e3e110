"""What identifies one machine, removed from what is captured or imported.

A capture never reads most of it (:mod:`topologies.capturing.scope`): host name, MAC addresses and
machine ids lie in other files. ``topology/ppin`` is a CPU's serial number (kernel:
``Documentation/ABI/stable/sysfs-devices-system-cpu``), which other programs pack with the rest.
In ``/proc/cpuinfo`` some architectures print an identity: ``Serial`` on ARM boards,
``identification`` (``ident`` from 6.1) with the serial number of the machine on s390, ``system
serial number`` on Alpha. Letters and digits of such a value become zeros, so that the text keeps
its form.
"""

from __future__ import annotations

import re
from typing import Final

#: A key and its value, up to the next comma or the end of the line.
_IDENTITY: Final = re.compile(
    r"(?P<key>\b(?:(?:\w{1,20} ){0,2}(?:serial(?: number)?|uuid)|identification|ident|ppin))"
    r"(?P<between>[ \t]*[:=][ \t]*)(?P<value>[^,\n]*)",
    re.IGNORECASE,
)


def is_identity(path: str) -> bool:
    """Whether the file of this path holds nothing but an identity."""
    return path.endswith("/topology/ppin")


def without_identity(cpuinfo: str) -> tuple[str, tuple[str, ...]]:
    """``cpuinfo`` with identities as zeros, and the names of the fields that this changed."""
    changed: dict[str, None] = {}

    def zeros(found: re.Match[str]) -> str:
        blank = re.sub(r"[^\W_]", "0", found["value"])
        if blank != found["value"]:
            changed.setdefault(found["key"].strip())
        return found["key"] + found["between"] + blank

    return _IDENTITY.sub(zeros, cpuinfo), tuple(changed)
