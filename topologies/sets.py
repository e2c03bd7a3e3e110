"""Which files of a tree hold sets of CPUs or of NUMA nodes, and the numbers that Linux stops at.

A set is one int as long as its highest number. So code that reads untrusted trees calls
:func:`beyond_linux` first, and never makes a set of a number that no kernel gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from topologies.cpulist import MAX_ID, BeyondLinux, parse_list, parse_mask, parsed
from topologies.paths import CPU, CPUINFO, NODE
from topologies.tree import Link

#: The highest NUMA node (``NODES_SHIFT`` is at most 10: ``arch/x86/Kconfig``).
MAX_NODE: Final = 1023

_LISTS: Final = (
    "_siblings_list", "_cpus_list", "/shared_cpu_list", "/cpulist",
    *(f"{CPU}/{name}" for name in ("online", "offline", "present", "possible")),
    *(f"{NODE}/{name}" for name in ("online", "possible", "has_cpu")),
)  # fmt: skip
_IN_CPU: Final = re.compile(
    rf"{CPU}/cpu([0-9]{{1,9}})(?![^/])(?:/node([0-9]{{1,9}})(?![^/]))?", re.ASCII
)
_IN_NODE: Final = re.compile(
    rf"{NODE}/node([0-9]{{1,9}})(?![^/])(?:/cpu([0-9]{{1,9}})(?![^/]))?", re.ASCII
)
#: How ``/proc/cpuinfo`` numbers a CPU.
PROCESSOR: Final = re.compile(r"^processor\s*: *([0-9]{1,7})\s*$", re.MULTILINE)
_MASKS: Final = ("_siblings", "_cpus", "/shared_cpu_map", "/cpumap")


class Texts:
    """The texts of a tree's files as values; what cannot be read is ``None``. ``entries`` may
    change."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._texts = entries
        self._sets: dict[tuple[object, str], int | None] = {}

    def text(self, path: str) -> str | None:
        """A file's text without blanks around it; ``None`` also for a link."""
        found = self._texts.get(path)
        return None if found is None or isinstance(found, Link) else found.strip()

    def cpus(self, path: str) -> int | None:
        """A file that holds a list, as a set."""
        return self._parsed(parse_list, path)

    def mask(self, path: str) -> int | None:
        """A file that holds a mask, as a set."""
        return self._parsed(parse_mask, path)

    def _parsed(self, parse: Callable[[str], int], path: str) -> int | None:
        """Parse each text once: a machine has few different sets in many files."""
        text = self.text(path)
        if text is None:
            return None
        if (parse, text) not in self._sets:
            self._sets[parse, text] = parsed(parse, text)
        return self._sets[parse, text]


def beyond_linux(entries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The files and folders with numbers that no kernel gives: their path, and what is wrong.

    These are lists and masks of CPUs longer than any kernel's, and a CPU above 8191 or a NUMA node
    above 1023 among the folders, the links and the processors of ``/proc/cpuinfo``.
    """
    yield from _sets(entries)
    highest = [(-1, ""), (-1, "")]
    for path in entries:
        for which, number in _numbers(path):
            highest[which] = max(highest[which], (number, path))
    info = entries.get(CPUINFO, "")
    listed = [] if isinstance(info, Link) else map(int, PROCESSOR.findall(info))
    cpu, node = max(highest[0], (max(listed, default=-1), CPUINFO)), highest[1]
    for (number, path), noun, last in ((cpu, "CPU", MAX_ID), (node, "NUMA node", MAX_NODE)):
        if number > last:
            yield path, f"it has a {noun} {number}; Linux stops at {last}"


def _numbers(path: str) -> Iterator[tuple[int, int]]:
    """The numbers in a path, each after 0 for a CPU's and 1 for a NUMA node's."""
    if found := _IN_CPU.match(path):
        yield 0, int(found[1])
        if found[2]:
            yield 1, int(found[2])
    elif found := _IN_NODE.match(path):
        yield 1, int(found[1])
        if found[2]:
            yield 0, int(found[2])


def unreadable(entries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The files whose text is not a list, or not a mask: their path, and which. Older kernels begin
    the list of CPUs that are offline with a comma."""
    facts = Texts(entries)
    for path, is_mask in _files_of_sets(entries):
        if path != f"{CPU}/offline" and (facts.mask(path) if is_mask else facts.cpus(path)) is None:
            yield path, f"is not a {'mask' if is_mask else 'list'} of numbers"


def _files_of_sets(entries: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """The files with sets, each with whether it is a mask."""
    for path, text in entries.items():
        is_mask = path.endswith(_MASKS)
        if not isinstance(text, Link) and (is_mask or path.endswith(_LISTS)):
            yield path, is_mask


def _sets(entries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[bool, str], str] = {}
    for path, is_mask in _files_of_sets(entries):
        text = entries[path]
        key = is_mask, text
        if key not in seen:
            seen[key] = _wrong(parse_mask if is_mask else parse_list, text)
        if seen[key]:
            yield path, seen[key]


def _wrong(parse: Callable[[str], int], text: str) -> str:
    try:
        parse(text)
    except BeyondLinux as error:
        return str(error)
    except ValueError:
        pass
    return ""
