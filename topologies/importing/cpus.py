"""Completing ``cpu/``: which CPUs there are, their ids and siblings.

What is added is derived from what the tree holds in another form. What a kernel does not show is
not added: a machine without ``cpuN/online`` has a kernel that cannot switch CPUs off, and a kubelet
on a real machine meets caches without an ``id`` too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from topologies.cpulist import bits, format_list, grouped, ids
from topologies.importing.draft import Draft
from topologies.importing.notes import NoteKind
from topologies.paths import CPU, CPUINFO

#: Sets of siblings, by the old name and the name of today.
_THREADS: Final = ("thread_siblings", "core_cpus")
_PACKAGES: Final = ("core_siblings", "package_cpus")
_SETS: Final = (*_THREADS, *_PACKAGES, "die_cpus", "cluster_cpus", "book_siblings")
_INDEX: Final = re.compile(rf"({CPU}/cpu[0-9]{{1,7}}/cache/index[0-9]{{1,3}})/[^/]+", re.ASCII)


def complete_cpu_lists(draft: Draft) -> None:
    """``cpu/online`` and its like. Leaves ``draft.online`` empty where nothing names a CPU."""
    path = f"{CPU}/online"
    online = draft.cpus(path)
    if not online:
        online, why = _online(draft)
        if online:
            _put_list(draft, path, online, why)
    draft.online = online
    known = draft.folders | online
    present = _list(draft, "present", known, "the CPUs that the tree knows")
    reach = (1 << (known | present).bit_length()) - 1
    why = "up to the highest CPU that the tree knows; the kernel may have allowed for more"
    possible = _list(draft, "possible", reach, why)
    draft.width = max(possible.bit_length(), 1)
    # One that cannot be read stays: kernels write ",4-5" where there are more CPUs than they allow
    # for.
    if f"{CPU}/offline" not in draft.entries:
        offline = possible & ~online
        draft.complete(f"{CPU}/offline", draft.list_text(offline), "possible and not online")


def _list(draft: Draft, name: str, members: int, why: str) -> int:
    """The CPUs of a list. Where it is missing or not a list, ``members`` are written to it."""
    path = f"{CPU}/{name}"
    listed = draft.cpus(path)
    if listed is not None:
        return listed
    _put_list(draft, path, members, why)
    return members


def _put_list(draft: Draft, path: str, members: int, why: str) -> None:
    if path in draft.entries:
        draft.entries[path] = draft.list_text(members)
        draft.note(NoteKind.REPAIRED, path, f"it was not a list of CPUs; {why}")
    else:
        draft.complete(path, draft.list_text(members), why)


def _online(draft: Draft) -> tuple[int, str]:
    """The online CPUs, and where they are from. The kernel lists no other CPUs in
    ``/proc/cpuinfo``, and shows no other topology; old kernels did, and had a switch that is 0."""
    listed, shown = bits(draft.processors), draft.has_topology()
    off = bits(cpu for cpu in ids(draft.folders) if draft.text(f"{CPU}/cpu{cpu}/online") == "0")
    if listed | shown:
        return (listed | shown) & ~off, "the CPUs of /proc/cpuinfo and those with a topology"
    return draft.folders & ~off, "the CPUs that have a folder and are not switched off"


def complete_ids(draft: Draft) -> None:
    """``core_id`` and ``physical_package_id``, from ``/proc/cpuinfo``, else by counting sets of
    siblings: then the numbers are new ones, as the note says."""
    for name, field, number in (
        ("physical_package_id", "physical id", _package_numbers),
        ("core_id", "core id", _core_numbers),
    ):
        missing = _without(draft, name)
        if not missing:
            continue
        stated = {
            cpu: draft.processors[cpu][field]
            for cpu in ids(missing)
            if field in draft.processors.get(cpu, ())
        }
        _put_ids(draft, name, stated, f'"{field}" of {CPUINFO}')
        missing &= ~bits(stated)
        if missing == draft.online:
            _put_ids(draft, name, number(draft), "counted from the sets of siblings; a new number")
            missing = _without(draft, name)
        if missing:
            what = f"{CPU}/cpu{{{format_list(missing)}}}/topology/{name}"
            draft.note(NoteKind.LACKING, what, "no file says it; the kubelet leaves such CPUs out")


def _without(draft: Draft, name: str) -> int:
    return bits(
        cpu for cpu in ids(draft.online) if draft.number(f"{CPU}/cpu{cpu}/topology/{name}") is None
    )


def _put_ids(draft: Draft, name: str, numbers: Mapping[int, int], why: str) -> None:
    for cpu, number in numbers.items():
        draft.entries[f"{CPU}/cpu{cpu}/topology/{name}"] = f"{number}\n"
    if numbers:
        what = f"{CPU}/cpu{{{format_list(bits(numbers))}}}/topology/{name}"
        draft.note(NoteKind.COMPLETED, what, why)


def _package_numbers(draft: Draft) -> dict[int, int]:
    sets = _sets(draft, _PACKAGES)
    ordered = sorted(set(sets.values()), key=lambda members: members & -members)
    numbers = {members: number for number, members in enumerate(ordered)}
    return {cpu: numbers[members] for cpu, members in sets.items()}


def _core_numbers(draft: Draft) -> dict[int, int]:
    """Cores are counted in their package, as kernels do."""
    sets, numbers = _sets(draft, _THREADS), dict[int, int]()
    packages: dict[int | None, list[int]] = {}
    for members in sorted(set(sets.values()), key=lambda members: members & -members):
        first = next(ids(members))
        package = draft.number(f"{CPU}/cpu{first}/topology/physical_package_id")
        packages.setdefault(package, []).append(members)
    for cores in packages.values():
        for number, members in enumerate(cores):
            numbers |= dict.fromkeys(ids(members & draft.online), number)
    return numbers


def _sets(draft: Draft, names: Iterable[str]) -> dict[int, int]:
    """The set of each online CPU, from its own files or those of a sibling."""
    found: dict[int, int] = {}
    left = draft.online
    for cpu in ids(draft.online):
        members = _set(draft, cpu, names)
        if members is not None and members >> cpu & 1:
            found |= dict.fromkeys(ids(members & left), members & draft.online)
            left &= ~members
    return found


def _set(draft: Draft, cpu: int, names: Iterable[str]) -> int | None:
    for name in names:
        path = f"{CPU}/cpu{cpu}/topology/{name}"
        for members in (draft.mask(path), draft.cpus(f"{path}_list")):
            if members is not None:
                return members
    return None


def complete_siblings(draft: Draft) -> None:
    """Masks from lists and lists from masks; where there is neither, the CPUs of equal ids."""
    _translate(draft, [f"{CPU}/cpu{cpu}/topology/{name}" for cpu in ids(draft.online)
                       for name in _SETS], "{}", "{}_list", "topology")  # fmt: skip
    for names, of, words in (
        (_THREADS, ("physical_package_id", "die_id", "core_id"), "equal package, die and core id"),
        (_PACKAGES, ("physical_package_id",), "equal package id"),
    ):
        groups = _groups(draft, of)
        added = 0
        for cpu in ids(draft.online):
            path = f"{CPU}/cpu{cpu}/topology/{names[0]}"
            if cpu in groups and _set(draft, cpu, names) is None:
                draft.entries[path] = draft.mask_text(groups[cpu])
                draft.entries[f"{path}_list"] = draft.list_text(groups[cpu])
                added |= 1 << cpu
        if added:
            what = f"{CPU}/cpu{{{format_list(added)}}}/topology/{names[0]}"
            draft.note(NoteKind.COMPLETED, f"{what} and its list", f"the CPUs of {words}")


def _groups(draft: Draft, names: Iterable[str]) -> dict[int, int]:
    """The CPUs with the same ids, by online CPU. One without the first or last id is left out."""
    keys: dict[int, tuple[int | None, ...]] = {}
    for cpu in ids(draft.online):
        key = tuple(draft.number(f"{CPU}/cpu{cpu}/topology/{name}") for name in names)
        if key[0] is not None and key[-1] is not None:
            keys[cpu] = key
    groups = grouped((key, cpu) for cpu, key in keys.items())
    return {cpu: groups[key] for cpu, key in keys.items()}


def complete_caches(draft: Draft) -> None:
    """Add the mask or the list of the CPUs that share a cache. Only the kernel gives ids."""
    folders = sorted({found[1] for found in map(_INDEX.fullmatch, draft.entries) if found})
    _translate(draft, folders, "{}/shared_cpu_map", "{}/shared_cpu_list", "caches")
    bare = [one for one in folders if f"{one}/id" not in draft.entries]
    if not folders:
        draft.note(NoteKind.LACKING, f"{CPU}/cpu*/cache", "the kubelet sees no caches")
    elif bare:
        what = f"the id of {len(bare)} of {len(folders)} caches"
        why = "only the kernel gives one; the kubelet sees no caches from the first such on"
        draft.note(NoteKind.LACKING, what, why)


def _translate(draft: Draft, bases: Iterable[str], mask: str, listed: str, what: str) -> None:
    """Add the mask of each set that has only a list, and the reverse."""
    counts: dict[str, int] = {}
    readers: tuple[tuple[str, str, Callable[[str], int | None], Callable[[int], str]], ...] = (
        (mask, listed, draft.cpus, draft.mask_text),
        (listed, mask, draft.mask, draft.list_text),
    )
    for base in bases:
        for wanted, other, read, write in readers:
            path = wanted.format(base)
            if path not in draft.entries and (members := read(other.format(base))) is not None:
                draft.entries[path] = write(members)
                name = path.rpartition("/")[2]
                counts[name] = counts.get(name, 0) + 1
    for name, count in counts.items():
        why = "the same set in its other form"
        draft.note(NoteKind.COMPLETED, f"{CPU}/cpu*/{what}, {count} times {name}", why)
