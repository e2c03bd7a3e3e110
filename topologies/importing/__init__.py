"""Machines that others captured: archives of hwloc-gather-topology, dumps for tests of lscpu.

Both hold ``sys`` and ``proc`` below folders of their own, and not all that a kubelet reads.
:func:`complete` adds what the tree has in another form, and notes what it made from what;
:func:`topologies.load` in contrast reads an archive as it is. What belongs here: adding what
follows from a tree. What never does: guessing, and repairing what a kernel really shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topologies.errors import BrokenMachine
from topologies.importing.cpus import (
    complete_caches,
    complete_cpu_lists,
    complete_ids,
    complete_siblings,
)
from topologies.importing.draft import Draft
from topologies.importing.nodes import complete_nodes
from topologies.importing.notes import Note, NoteKind
from topologies.importing.texts import clean_texts
from topologies.paths import CPU, CPUINFO
from topologies.sets import beyond_linux
from topologies.tree import Tree

__all__ = ["Completed", "Note", "NoteKind", "complete"]


@dataclass(frozen=True, slots=True)
class Completed:
    """A tree, and what was done to it."""

    tree: Tree
    notes: tuple[Note, ...]


def complete(tree: Mapping[str, str], *, where: str = "the tree") -> Completed:
    """``tree`` with what follows from it. A tree that lacks nothing is returned as it was. Raises
    :class:`topologies.BrokenMachine` for one that names no CPU, or has numbers above those of
    Linux; the error names it by ``where``.
    """
    draft = Draft(tree)
    for path, wrong in beyond_linux(tree):
        raise BrokenMachine(where, f"not a machine: {path}: {wrong}")
    clean_texts(draft)
    complete_cpu_lists(draft)
    if not draft.online:
        raise BrokenMachine(where, f"not a machine: neither {CPU} nor {CPUINFO} names a CPU")
    complete_ids(draft)
    complete_siblings(draft)
    complete_caches(draft)
    complete_nodes(draft)
    if CPUINFO not in draft.entries:
        draft.note(NoteKind.LACKING, CPUINFO, "the kubelet counts sockets by sysfs alone")
    return Completed(Tree(draft.entries), tuple(draft.notes))
