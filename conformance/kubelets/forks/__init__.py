"""Kubelets of forks: of a source tree, of a module with replacements, of a release with patches.
What a fork changes in the CPU manager never belongs here."""

from conformance.kubelets.forks.module import Module
from conformance.kubelets.forks.patched import Patched
from conformance.kubelets.forks.shop import SHELF, build, cached, kept
from conformance.kubelets.forks.tree import Tree

__all__ = ["SHELF", "Module", "Patched", "Tree", "build", "cached", "kept"]
