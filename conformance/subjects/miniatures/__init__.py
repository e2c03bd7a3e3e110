"""Miniatures: the model with one fault each. They test the suite: they show that a scenario can
fail.

``miniature:NAME`` is one of :data:`MINIATURES`, or a named behaviour switched:
``miniature:true-sizes`` has a behaviour that its release lacks, and
``miniature:ordered-allocation=off`` lacks one that its release has.
"""

from __future__ import annotations

from difflib import get_close_matches

from conformance.subject import SubjectUsageError
from conformance.subjects.miniatures.miniature import Miniature
from conformance.subjects.miniatures.switched import default_release, has_switched, switch
from conformance.subjects.miniatures.table import MINIATURES
from conformance.subjects.reference import ReferenceSubject
from reference import NotModelled
from reference.behaviours import Behaviour

__all__ = ["MINIATURES", "Miniature", "MiniatureSubject", "miniature"]


class MiniatureSubject(ReferenceSubject):
    """The subject ``miniature:NAME``."""

    def of(self, release: str) -> ReferenceSubject:
        """The same miniature of another release. Raises :class:`SubjectUsageError` if it switches a
        behaviour to what that release does anyway."""
        return miniature(self.info.name.removeprefix("miniature:"), release=release)


def miniature(name: str, *, release: str | None = None) -> MiniatureSubject:
    """The subject ``miniature:NAME``, of its own release unless another is given. Raises
    :class:`SubjectUsageError` for an unknown name, and if it switches a behaviour to what the
    release does anyway."""
    found = MINIATURES.get(name) or _switched(name)
    if found is None:
        near = get_close_matches(name, [*MINIATURES, *(one.title for one in Behaviour)], n=1)
        known = f"did you mean {near[0]}?" if near else f"there are {', '.join(MINIATURES)}"
        raise SubjectUsageError(f"unknown miniature {name!r}: {known}")
    release = release or found.release
    if name not in MINIATURES:
        _require_difference(name, release, found.release)
    return MiniatureSubject(f"miniature:{name}", release=release, make=found.node)


def _require_difference(name: str, release: str, usual: str) -> None:
    if not usual:
        raise SubjectUsageError(f"miniature:{name}: every release does that already")
    try:
        differs = has_switched(switch(name), release)
    except (NotModelled, ValueError) as error:
        raise SubjectUsageError(str(error)) from error
    if not differs:
        raise SubjectUsageError(
            f"miniature:{name}: release {release} does that already; {usual} does not"
        )


def _switched(name: str) -> Miniature | None:
    """The miniature of a switched behaviour; ``None`` for a name of anything else."""
    try:
        chosen = switch(name)
    except ValueError:
        return None
    return Miniature(name, "", release=default_release(chosen))
