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
#: Where a tree has the modules that are published beside ``k8s.io/kubernetes``.
STAGING: Final = "staging/src/"
#: What no program of a source tree is made of.
_NOT_BUILT: Final = frozenset({".git", "_output"})


class Fork(Protocol):
    """What a kubelet is built from that is no release."""

    @property
    def version(self) -> Version:
        """The release that it is made of."""

    @property
    def kind(self) -> str:
        """The word for it in the version that the kubelet prints."""

    def digest(self) -> str:
        """Of all that it is made of, in hexadecimal."""

    def compile(self, draft: Path, suffix: str, builder: Builder) -> Go:
        """Make the program ``kubelet`` in an empty folder, with the Go that is returned.
        ``suffix`` ends the version that it prints."""


def release(target: str, *, wanted: str) -> Version:
    """The exact release that a fork is made of; of a minor the one that is known to build. Raises
    :class:`SubjectUsageError`, which names ``wanted``."""
    asked = releases.parse(target)
    if asked is None:
        said = (
            f"{target!r} is not a release: 1.36 and 1.36.4 are" if target else "RELEASE is missing"
        )
        raise SubjectUsageError(f"{wanted}: {said}")
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
    """What a file holds; ``""`` where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def contents(folder: Path) -> Iterator[bytes]:
    """The name of each file of a tree and what it holds, in a fixed order."""
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
    """As :meth:`Fork.compile`, of a package and a module of ours around it; ``label`` is the
    version in messages."""
    go, what = Go.find(), f"kubelet {label}"
    write_files(plan, draft)
    builder.say(f"fetching the modules of {what}")
    fetch(go, what, draft)
    compile_program(go, [*plan.flags, "-o", PROGRAM, package], what, draft, builder)
    return go
