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
    stated; ``why`` says in one line why it is worth having; ``source`` where it came from;
    ``place`` is the path that it was read from, as given, or ``""``."""

    name: str
    tree: Tree = field(repr=False)
    shape: str = ""
    why: str = ""
    source: str = ""
    place: str = field(default="", compare=False)

    def derived(self, how: Hashable, make: Callable[[], Machine]) -> Machine:
        """What ``make`` returns, made once for each ``how`` and kept as long as this machine is.
        Scenarios ask for the same few again and again, and a tree of the same identity is
        discovered once (:mod:`conformance.discovered`)."""
        found = self._derived.get(how)
        return found or self._derived.setdefault(how, make())

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
