"""What the kinds of forks share: their releases, digests, and building around a module."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from conformance.kubelets import releases
from conformance.kubelets.golang import Go
from conformance.kubelets.recipe import Recipe
from conformance.kubelets.releases import Version
from conformance.kubelets.workshop import compile_program, fetch, known_to_build, write_files
from conformance.progress import Builder
from conformance.subject import SubjectUsageError, usable

PROGRAM: Final = "kubelet"
#: The folder of a tree with the modules that are published beside ``k8s.io/kubernetes``.
STAGING: Final = "staging/src/"
#: Folders of a source tree that no program is built from.
_NOT_BUILT: Final = frozenset({".git", "_output"})


class Fork(Protocol):
    """The source of a kubelet that is not a release."""

    @property
    def version(self) -> Version:
        """The release that the fork is based on."""

    @property
    def kind(self) -> str:
        """The word for this kind of fork in the version that the kubelet prints."""

    def digest(self) -> str:
        """A digest of all sources and flags, in hexadecimal."""

    def compile(self, draft: Path, suffix: str, builder: Builder) -> Go:
        """Build the program ``kubelet`` in an empty folder; returns the Go that built it.
        ``suffix`` ends the version that it prints."""


def release(target: str, *, wanted: str) -> Version:
    """The exact release that a fork is based on; for a minor, the patch release that is known to
    build. Raises :class:`SubjectUsageError`, which names ``wanted``."""
    asked = releases.parse(target)
    if asked is None:
        why = (
            f"{target!r} is not a release: 1.36 and 1.36.4 are" if target else "RELEASE is missing"
        )
        raise SubjectUsageError(f"{wanted}: {why}")
    version = next(iter(known_to_build(asked)), None)
    if version is None:
        raise SubjectUsageError(f"{wanted}: of {asked}, name the patch release")
    if version.release < releases.OLDEST:
        raise SubjectUsageError(f"{version}: {releases.OLDEST} is the oldest that can be driven")
    return version


def digest_of_parts(parts: Iterable[bytes]) -> str:
    """The sha256 of these parts, each with its length."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def text_of(path: Path) -> str:
    """A file's text; ``""`` if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def contents(folder: Path) -> Iterator[bytes]:
    """The name and content of each file of a tree, in a fixed order."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_BUILT)
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(place, name)
            with usable(path):
                content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            yield str(path.relative_to(folder)).encode()
            yield content


def compile_module(
    plan: Recipe, draft: Path, label: str, builder: Builder, *, package: str = "."
) -> Go:
    """As :meth:`Fork.compile`, for a ``package`` and the module of ``plan`` around it; ``label`` is
    the version in messages."""
    go, what = Go.find(), f"kubelet {label}"
    write_files(plan, draft)
    builder.say(f"fetching the modules of {what}")
    fetch(go, what, draft)
    compile_program(go, [*plan.flags, "-o", PROGRAM, package], what, draft, builder)
    return go
