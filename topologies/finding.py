"""Machines by name: the catalogue, described specs, archives and folders on disk.

The catalogue is a folder of ``NAME.toml`` files (:mod:`topologies.entries`); a ``NAME.tar.xz``
beside one holds the machine's tree, and without it the machine is described by its shape.
``PINPROOF_MACHINES`` names folders of further archives and trees. These never replace a machine of
the catalogue, so that its name in a report has one meaning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from topologies.cpulist import bits, format_list
from topologies.described import describe
from topologies.entries import CATALOGUE, catalogue_entry, entry_beside, entry_names
from topologies.errors import BadSpec, BrokenMachine, MachineError, UnknownMachine
from topologies.hotplug import without_cpus
from topologies.machine import Machine
from topologies.reading import checked, is_machine_path, machine_name, read_tree
from topologies.spec import MAX_CPUS, looks_like_spec, parse
from topologies.tree import Tree

#: Folders of private machines, separated by colons.
MACHINES_VARIABLE: Final = "PINPROOF_MACHINES"
#: What :func:`offline` puts after a name.
_OFFLINE: Final = re.compile(r"-off[0-9][0-9,-]*$", re.ASCII)
#: What :func:`with_memory` puts after a name.
_WITH_MEMORY: Final = re.compile(r"(.+)-([0-9]{1,9}(?:,[0-9]{1,9}){0,63})mib", re.ASCII)

#: What :func:`with_huge_pages` puts after a name.
_WITH_HUGE_PAGES: Final = re.compile(
    r"(.+)-hugepages-([1-9][0-9]{0,3}(?:Ki|Mi|Gi))-([0-9]{1,9}(?:,[0-9]{1,9}){0,63})", re.ASCII
)
_KIB: Final = {"Ki": 1, "Mi": 1 << 10, "Gi": 1 << 20}

_NODE_CPUS: Final = re.compile(r"(sys/devices/system/node/node([0-9]+))/cpulist", re.ASCII)
_HUGE_PAGES: Final = re.compile(r"sys/devices/system/node/node[0-9]+/hugepages(/|$)", re.ASCII)


def load(path_or_name: str | os.PathLike[str], *, check: bool = True) -> Tree:
    """The tree of :func:`machine`; with ``check=False`` also one without ``cpu/online``."""
    return machine(path_or_name, check=check).tree


def machine(path_or_name: str | os.PathLike[str], *, check: bool = True) -> Machine:
    """The machine that this names: in the catalogue, else in ``PINPROOF_MACHINES``, else by a spec
    (:mod:`topologies.spec`), else by a path to an archive or a folder.

    A machine from a path is named by its last part without the archive's suffix. Raises
    :class:`UnknownMachine` (with names like it), :class:`BadSpec` or :class:`BrokenMachine`, and
    :class:`MachineError` for an empty name.
    """
    if path_or_name == "":
        raise MachineError("a machine's name is empty: `pinproof machines` lists their names")
    if isinstance(path_or_name, str):
        found = _named(path_or_name, check)
        if found is not None:
            return found
    path = Path(path_or_name)
    try:
        return _from_path(path, check)
    except UnknownMachine:
        near = get_close_matches(str(path_or_name), names(), n=2, cutoff=0.75)
        raise UnknownMachine(str(path_or_name), near) from None


def names() -> list[str]:
    """The names of the catalogue, by growing number of CPUs, then those of private machines."""
    own = _catalogue_names()
    return [*own, *(name for name in sorted(_private()) if name not in own)]


def find(pattern: str | os.PathLike[str]) -> list[Machine]:
    """The machines that ``pattern`` means: ``all``, a glob over :func:`names` (``2s-*``), or what
    :func:`machine` accepts. Never empty: raises what :func:`machine` raises."""
    return [machine(name) for name in matching(pattern)] or [machine(pattern)]


def matching(pattern: str | os.PathLike[str]) -> list[str]:
    """Those of :func:`names` that ``pattern`` means, ``all`` or a glob, in their order. No machine
    is read. Empty where nothing matches, and for any other text."""
    if pattern == "all":
        return names()
    if isinstance(pattern, str) and any(char in pattern for char in "*?["):
        return [name for name in names() if fnmatchcase(name, pattern)]
    return []


def search(text: str) -> list[str]:
    """The names of the machines, in the order of :func:`names`, that hold ``text`` in their name or
    in what is said of them (``why``, ``source``, ``kernel``, ``kubelet``): as whole words (``AMD``
    is not one in ``amd64``), or anywhere where no machine has it as words. Case is ignored. A
    machine whose texts cannot be read is searched by its name."""
    said = {name: f"{name}\n{_texts_of(name)}" for name in names()}
    part = re.compile(re.escape(text), re.IGNORECASE)
    word = re.compile(rf"(?<!\w){part.pattern}(?!\w)", re.IGNORECASE)
    found = ([name for name, text in said.items() if form.search(text)] for form in (word, part))
    return next(filter(None, found), [])


def offline(machine: Machine, cpus: Iterable[int]) -> Machine:
    """``machine`` with ``cpus`` offline as well, under a name that says so: ``NAME-off3,7``.

    Of a described machine the name is the canonical spec. The same machine and CPUs give the same
    object. Raises what :func:`topologies.without_cpus` raises.
    """
    wanted = tuple(cpus)
    return machine.derived(("offline", wanted), lambda: _offline(machine, wanted))


def _offline(machine: Machine, wanted: tuple[int, ...]) -> Machine:
    tree = without_cpus(machine.tree, wanted)
    if tree is machine.tree:
        return machine
    shape = machine.shape
    if shape:
        known = parse(shape)
        shape = str(replace(known, offline=known.offline | bits(wanted)))
    described = machine.name == machine.shape
    name = shape if described else f"{machine.name}-off{format_list(bits(wanted))}"
    source = f"{machine.source}, with CPUs taken offline" if machine.source else ""
    return Machine(name=name, tree=tree, shape=shape, source=source)


def with_memory(machine: Machine, *mebibytes: int) -> Machine:
    """``machine`` with this memory in each NUMA node and without huge pages, as ``NAME-256mib``.
    Several sizes go to the NUMA nodes by ascending id, the last one also to all further nodes:
    ``NAME-255,257,256mib``. The same machine and memory give the same object; a machine whose tree
    has no NUMA nodes is returned as it is."""
    return machine.derived(("memory", mebibytes), lambda: _with_memory(machine, mebibytes))


def _with_memory(machine: Machine, mebibytes: tuple[int, ...]) -> Machine:
    nodes = _numa_nodes(machine)
    if not nodes:
        return machine
    tree = {path: machine.tree[path] for path in machine.tree if not _HUGE_PAGES.match(path)}
    for (folder, node), size in zip(nodes, chain(mebibytes, repeat(mebibytes[-1])), strict=False):
        tree[f"{folder}/meminfo"] = f"Node {node} MemTotal: {size * 1024} kB\n"
    source = f"{machine.source}, with other memory" if machine.source else ""
    name = f"{machine.name}-{','.join(map(str, mebibytes))}mib"
    return Machine(name=name, tree=Tree(tree), shape=machine.shape, source=source)


def with_huge_pages(machine: Machine, size: str, *pages: int) -> Machine:
    """``machine`` with ``pages`` huge pages of ``size`` in each NUMA node, as
    ``NAME-hugepages-2Mi-16``. Several numbers go to the NUMA nodes as with :func:`with_memory`.
    Huge pages of other sizes stay. The same machine and pages give the same object; a machine whose
    tree has no NUMA nodes is returned as it is."""
    key = ("huge pages", size, pages)
    return machine.derived(key, lambda: _with_huge_pages(machine, size, pages))


def _with_huge_pages(machine: Machine, size: str, pages: tuple[int, ...]) -> Machine:
    nodes = _numa_nodes(machine)
    if not nodes:
        return machine
    tree = {path: machine.tree[path] for path in machine.tree}
    kib = int(size[:-2]) * _KIB[size[-2:]]
    for (folder, _), count in zip(nodes, chain(pages, repeat(pages[-1])), strict=False):
        own = f"{folder}/hugepages/hugepages-{kib}kB"
        for name, value in (("nr", count), ("free", count), ("surplus", 0)):
            tree[f"{own}/{name}_hugepages"] = f"{value}\n"
    name = f"{machine.name}-hugepages-{size}-{','.join(map(str, pages))}"
    source = f"{machine.source}, with huge pages" if machine.source else ""
    return Machine(name=name, tree=Tree(tree), shape=machine.shape, source=source)


def _numa_nodes(machine: Machine) -> list[tuple[str, int]]:
    """The folder and the id of each NUMA node, by rising id."""
    found = [match for path in machine.tree if (match := _NODE_CPUS.fullmatch(path))]
    return sorted(((node[1], int(node[2])) for node in found), key=lambda node: node[1])


def whole(name: str) -> str:
    """The name of the machine that :func:`offline` named so; any other name as it is."""
    return _OFFLINE.sub("", name)


def _named(name: str, check: bool) -> Machine | None:
    """The machine of this name or spec, if there is one."""
    if name in _catalogue_names():
        return _from_catalogue(name)
    private = _private().get(name)
    if private is not None:
        return _with_entry(_from_path(private, check), private)
    pages = _WITH_HUGE_PAGES.fullmatch(name)
    base = _named(pages[1], check) if pages else None
    if pages and base:
        return with_huge_pages(base, pages[2], *map(int, pages[3].split(",")))
    memory = _WITH_MEMORY.fullmatch(name)
    base = _named(memory[1], check) if memory else None
    if memory and base:
        return with_memory(base, *map(int, memory[2].split(",")))
    return _from_spec(name) if looks_like_spec(name) else None


def _from_spec(name: str) -> Machine | None:
    """``None`` for the path of a file that is named like ``2s-2n-8c-smt2-ours.tar.xz``."""
    try:
        return describe(name)
    except BadSpec:
        if Path(name).exists():
            return None
        raise


def _from_path(path: Path, check: bool) -> Machine:
    left_out: list[str] = []
    tree = read_tree(path, left_out=left_out)
    if check:
        checked(tree, str(path), left_out)
    source = f"read from {path.name or path}"
    return Machine(name=machine_name(path), tree=tree, source=source, place=str(path))


def _with_entry(found: Machine, path: Path) -> Machine:
    """``found`` with the texts of the file beside it, which ``pinproof capture`` writes."""
    entry = entry_beside(path, found.name)
    if entry is None:
        return found
    source = entry.source or found.source
    return replace(found, shape=entry.shape, why=entry.why, source=source)


def _texts_of(name: str) -> str:
    try:
        entry = (
            catalogue_entry(name)
            if name in _catalogue_names()
            else entry_beside(_private()[name], name)
        )
    except MachineError:
        return ""
    return "\n".join((entry.why, entry.source, entry.kernel, entry.kubelet)) if entry else ""


@lru_cache(maxsize=1)
def _catalogue_names() -> tuple[str, ...]:
    return tuple(sorted(entry_names(), key=_by_size))


def _by_size(name: str) -> tuple[int, bool, str]:
    """Machines of one size: described ones first, whose names are their shapes. Machines without a
    shape come last."""
    shape = catalogue_entry(name).shape
    return parse(shape).present.bit_count() if shape else MAX_CPUS + 1, name != shape, name


@lru_cache(maxsize=128)
def _from_catalogue(name: str) -> Machine:
    entry = catalogue_entry(name)
    archive = CATALOGUE / f"{name}.tar.xz"
    described = not archive.exists()
    tree = describe(entry.shape).tree if described else checked(read_tree(archive), name)
    return Machine(name=name, tree=tree, shape=entry.shape, why=entry.why, source=entry.source)


def _private() -> dict[str, Path]:
    """Private machines by name; the first folder that has a name wins."""
    found: dict[str, Path] = {}
    for folder in os.environ.get(MACHINES_VARIABLE, "").split(":"):
        if not folder:
            continue
        try:
            members = sorted(Path(folder).iterdir())
        except OSError as error:
            reason = f"{error.strerror} (in {MACHINES_VARIABLE})"
            raise BrokenMachine(folder, reason) from error
        for path in members:
            if is_machine_path(path):
                found.setdefault(machine_name(path), path)
    return found
