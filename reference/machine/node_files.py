"""What a NUMA node's folder says of its memory, huge pages and distances.

What belongs here: reading ``nodeN/meminfo``, ``hugepages`` and ``distance``, and the texts with
which cAdvisor gives up on them. What never does: the node's CPUs.
"""

from __future__ import annotations

import re
from typing import Final

from reference.golang.strconv import NotANumber, go_quote, parse_uint, scan_uint, trim
from reference.golang.suffixes import written
from reference.machine.sysfs import SysFS, Unreadable

_MEMORY: Final = re.compile(r"MemTotal:[\t\n\f\r ]*([0-9]+) kB", re.ASCII)


class Fault(Exception):
    """Discovery as a whole fails; the kubelet logs why and goes on with an empty topology."""


class Panic(Exception):
    """Reading the machine makes the kubelet panic; ``str()`` is the runtime's text."""


def memory(sysfs: SysFS, folder: str, *, trimmed: bool) -> int:
    """Bytes of memory; 0 where the file cannot be read. ``trimmed``: whether a text that makes no
    sense is quoted without blanks at its ends. Raises :class:`Fault`."""
    text = sysfs.text(f"{folder}/meminfo")
    if text is None:
        return 0
    found = _MEMORY.search(text)
    if not found:
        quoted = go_quote(trim(text) if trimmed else text)
        raise Fault(f"failed to match regexp in output: {quoted}")
    try:
        return parse_uint(found[1]) * 1024
    except NotANumber as error:
        raise Fault(str(error)) from None


def huge_pages(sysfs: SysFS, folder: str, *, trimmed: bool) -> tuple[tuple[str, int], ...]:
    """The bytes of huge pages of each size, by the name of the resource; none where there is no
    such folder. Raises :class:`Fault`, and :class:`Panic` for a name without a dash."""
    found = {}
    for name in sysfs.listing(folder):
        if "-" not in name:
            raise Panic("runtime error: index out of range [1] with length 1")
        path = f"{folder}/{name}/nr_hugepages"
        try:
            kib = parse_uint(name.split("-")[1].split("kB")[0])
            text = sysfs.read(path)
        except (NotANumber, Unreadable) as error:
            raise Fault(str(error)) from None
        if text is None:
            raise Fault(f"open /{path}: no such file or directory")
        try:
            count = scan_uint(trim(text) if trimmed else text)
        except NotANumber:
            if trimmed:
                what = f"nr_hugepage for {name}, contents {go_quote(trim(text))}"
            else:
                what = f"/{path} contents {go_quote(text)}"
            raise Fault(f"could not parse file {what}") from None
        found[f"hugepages-{written(kib * 1024, binary=True)}"] = kib * 1024 * count
    return tuple(sorted(found.items()))


def distances(sysfs: SysFS, folder: str) -> tuple[int, ...]:
    """The distances to all nodes; empty where the file cannot be read. Raises :class:`Fault`."""
    text = sysfs.text(f"{folder}/distance")
    pieces = [] if text is None else trim(text).split(" ")
    found = []
    for piece in pieces:
        try:
            found.append(parse_uint(piece))
        except NotANumber:
            raise Fault(f"cannot convert {piece} to int") from None
    return tuple(found)
