"""Machines: trees of real and described hardware, loaded, described, drawn."""

from topologies.machine import Machine
from topologies.tree import Link, Tree

__all__ = ["Link", "Machine", "Tree"]
