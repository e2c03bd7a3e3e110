"""Machines: trees of real and described hardware, loaded, described, drawn.

:func:`load` and :func:`machine` take a name of the catalogue, a spec (``2s-4n-64c-smt2``), an
archive or a folder; :func:`names` and :func:`find` list them; :func:`describe` makes a machine from
a spec, :func:`offline` and :func:`without_cpus` take CPUs away, :func:`write` lays a tree out on
disk, :func:`lint` tells what is odd in one. :mod:`topologies.drawing` draws who holds which CPU.
"""

from topologies.described import describe
from topologies.errors import (
    BadSpec,
    BrokenMachine,
    MachineError,
    UnknownMachine,
    UnwritableMachine,
)
from topologies.finding import find, load, machine, names, offline
from topologies.hotplug import without_cpus
from topologies.linting import Finding, lint
from topologies.machine import Machine
from topologies.reading import read_tree
from topologies.tree import Link, Tree
from topologies.writing import write

__all__ = [
    "BadSpec",
    "BrokenMachine",
    "Finding",
    "Link",
    "Machine",
    "MachineError",
    "Tree",
    "UnknownMachine",
    "UnwritableMachine",
    "describe",
    "find",
    "lint",
    "load",
    "machine",
    "names",
    "offline",
    "read_tree",
    "without_cpus",
    "write",
]
