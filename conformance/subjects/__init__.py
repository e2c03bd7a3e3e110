"""The subjects that come with pinproof, opened by their names.

``SCHEME:REST`` names a subject; ``reference`` has no rest. Further schemes arrive through the
entry point group ``pinproof.subjects``: a function of the rest and a progress callback.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final, TypeAlias

from conformance.extras import missing
from conformance.subject import Subject, SubjectUsageError

#: Gets lines of progress while a subject is made ready.
Progress: TypeAlias = Callable[[str], None]
Maker: TypeAlias = Callable[[str, Progress], Subject]

ENTRY_POINTS: Final = "pinproof.subjects"


def _reference(rest: str, progress: Progress) -> Subject:
    from conformance.subjects.reference import ReferenceSubject

    if rest:
        raise SubjectUsageError(f"the subject reference takes nothing after it, not {rest!r}")
    return ReferenceSubject()


def _miniature(rest: str, progress: Progress) -> Subject:
    from conformance.subjects.miniatures import miniature

    return miniature(rest)


def _kubelet(rest: str, progress: Progress) -> Subject:
    from conformance.subjects.kubelet import KubeletSubject

    return KubeletSubject.open(rest, progress=progress, ahead=True)


def _exec(rest: str, progress: Progress) -> Subject:
    from conformance.subjects.exec import ExecSubject

    return ExecSubject.open(rest, progress=progress)


_BUILT_IN: Final[dict[str, Maker]] = {
    "reference": _reference,
    "miniature": _miniature,
    "kubelet": _kubelet,
    "exec": _exec,
}


def open_subject(name: str, *, progress: Progress = lambda stage: None) -> Subject:
    """The subject of this name, made ready. A kubelet's release is built if it is not in the cache.

    Raises :class:`SubjectUsageError` for an unknown name and for a subject whose extra is not
    installed, and :class:`conformance.subject.SubjectSetupError` if it cannot be made ready.
    """
    scheme, _, rest = name.partition(":")
    try:
        return _maker(name, scheme)(rest, progress)
    except ModuleNotFoundError as error:
        if said := missing(error):
            raise SubjectUsageError(f"{name}: {said}") from error
        raise


def _maker(name: str, scheme: str) -> Maker:
    if scheme in _BUILT_IN:
        return _BUILT_IN[scheme]
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if scheme not in found:
        known = ", ".join(sorted({*_BUILT_IN, *found}))
        raise SubjectUsageError(f"unknown subject {name!r}: it begins with one of {known}")
    maker: Maker = found[scheme].load()
    return maker
