"""A machine: a tree with a name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property

from topologies.tree import Link, Tree


@dataclass(frozen=True)
class Machine:
    """Hardware as the kubelet sees it. ``name`` is how a user names it; ``shape`` is its totals
    in the describer's grammar (``2s-4n-64c-smt2``), or ``""`` for a capture whose shape was not
    stated; ``why`` says in one line what it is for; ``source`` where it came from; ``place`` is the
    path that it was read from, as given, or ``""``."""

    name: str
    tree: Tree = field(repr=False)
    shape: str = ""
    why: str = ""
    source: str = ""
    place: str = field(default="", compare=False)

    def derived(self, key: Hashable, make: Callable[[], Machine]) -> Machine:
        """What ``make`` returns. It is called once for each ``key``, and this machine keeps the
        result. Scenarios ask for the same few machines often, and :mod:`conformance.discovered`
        does its work once for each tree object."""
        found = self._derived.get(key)
        return found or self._derived.setdefault(key, make())

    @cached_property
    def _derived(self) -> dict[Hashable, Machine]:
        return {}

    @cached_property
    def digest(self) -> str:
        """``sha256:…`` over the sorted entries of the tree, so equal trees have equal digests."""
        parts: list[bytes] = []
        for path in sorted(self.tree):
            text = self.tree[path]
            kind = b"link" if isinstance(text, Link) else b"file"
            for part in (path.encode(), kind, text.encode("utf-8", "surrogateescape")):
                parts += (len(part).to_bytes(8, "big"), part)
        return "sha256:" + hashlib.sha256(b"".join(parts)).hexdigest()
