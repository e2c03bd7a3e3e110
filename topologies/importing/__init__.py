"""Machines that others captured: archives of hwloc-gather-topology, dumps for tests of lscpu.

Both hold ``sys`` and ``proc`` below folders of their own, and not all that a kubelet reads.
:func:`complete` makes up what is there in another form and says what it made of what;
:func:`topologies.load` in contrast reads an archive as it is. What belongs here: adding what
follows from a tree. What never does: guessing, and mending what a kernel really shows.
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
from topologies.spec import MAX_CPUS, MAX_NODES
from topologies.tree import Tree

__all__ = ["Completed", "Note", "NoteKind", "complete"]


@dataclass(frozen=True, slots=True)
class Completed:
    """A tree, and what was done to it."""

    tree: Tree
    notes: tuple[Note, ...]


def complete(tree: Mapping[str, str], *, where: str = "the tree") -> Completed:
    """``tree`` with what follows from it. A tree that lacks nothing comes back as it was.

    Raises :class:`topologies.BrokenMachine` for one that tells of no CPU, or of more than Linux
    numbers; ``where`` names it then.
    """
    draft = Draft(tree)
    _check_numbers(draft, where)
    clean_texts(draft)
    complete_cpu_lists(draft)
    if not draft.online:
        raise BrokenMachine(where, f"no machine: neither {CPU} nor {CPUINFO} tells of a CPU")
    complete_ids(draft)
    complete_siblings(draft)
    complete_caches(draft)
    complete_nodes(draft)
    if CPUINFO not in draft.entries:
        draft.note(NoteKind.LACKING, CPUINFO, "the kubelet counts sockets by sysfs alone")
    return Completed(Tree(draft.entries), tuple(draft.notes))


def _check_numbers(draft: Draft, where: str) -> None:
    """A mask is as long as its highest CPU: a wild number would make gigabytes of them."""
    wild = draft.highest_cpu()
    if wild >= MAX_CPUS:
        raise BrokenMachine(where, f"no machine: it has a CPU {wild}; Linux stops at 8191")
    node = draft.highest_node()
    if node >= MAX_NODES:
        raise BrokenMachine(where, f"no machine: it has a NUMA node {node}; Linux stops at 1023")
