"""Machines: trees of real and described hardware, loaded, described, drawn.

:func:`load` and :func:`machine` take a name of the catalogue, a spec (``2s-4n-64c-smt2``), an
archive or a folder; :func:`names`, :func:`matching`, :func:`find` and :func:`search` list them;
:func:`describe` makes a machine from a spec, :func:`offline` and :func:`without_cpus` take CPUs
away, :func:`with_memory` gives every NUMA node other memory, :func:`with_huge_pages` huge pages,
:func:`complete` adds what is missing in a tree that another program captured, :func:`write` and
:func:`pack` put one on disk, :func:`lint` finds contradictions in one, :func:`pairs` lists machines
before and after a change. :mod:`topologies.drawing` draws who holds which CPU.
"""

from topologies.described import describe, is_described
from topologies.entries import Change, Entry, Pair, catalogue_entry, entry_names, pairs
from topologies.errors import (
    BadSpec,
    BrokenMachine,
    MachineError,
    UnknownMachine,
    UnwritableMachine,
)
from topologies.finding import (
    find,
    load,
    machine,
    matching,
    names,
    offline,
    search,
    whole,
    with_huge_pages,
    with_memory,
)
from topologies.hotplug import without_cpus
from topologies.importing import Completed, Note, NoteKind, complete
from topologies.linting import Finding, lint
from topologies.machine import Machine
from topologies.packing import is_archive_name, pack
from topologies.reading import read_tree
from topologies.tree import Link, Tree
from topologies.writing import write

__all__ = [
    "BadSpec", "BrokenMachine", "Change", "Completed", "Entry", "Finding", "Link", "Machine",
    "MachineError", "Note", "NoteKind", "Pair", "Tree", "UnknownMachine", "UnwritableMachine",
    "catalogue_entry", "complete", "describe", "entry_names", "find", "is_archive_name",
    "is_described", "lint", "load", "machine", "matching", "names", "offline", "pack", "pairs",
    "read_tree", "search", "whole", "with_huge_pages", "with_memory", "without_cpus",
    "write",
]  # fmt: skip
