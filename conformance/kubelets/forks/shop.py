"""Kubelets of forks, built and kept.

They are kept apart from the kubelets of releases, so that none is taken for a release. The key of
each is a digest of its sources and flags, without the toolchain. The version that such a kubelet
prints ends with its kind and that digest: ``v1.36.4+patched-0be6fa1a6f10``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from conformance.kubelets.forks.making import PROGRAM, Fork, digest_of_parts
from conformance.kubelets.shelf import Built, Shelf
from conformance.kubelets.workshop import MissingModuleError
from conformance.progress import Progress
from conformance.subject import SubjectSetupError

SHELF: Final = Shelf(PROGRAM, "forked-kubelets")


def build(fork: Fork, progress: Progress | None = None) -> Path:
    """The kubelet of a fork, from the cache or built now; ``progress`` gets each stage in a few
    words. Raises :class:`SubjectUsageError` if the fork cannot be built as it is, and
    :class:`SubjectSetupError` if it cannot be built here: no Go, no network, a missing module."""
    if built := kept(fork):
        return built.path
    digest = _key(fork)
    suffix = f"+{fork.kind}-{digest}"
    label = f"{fork.version}{suffix}"
    with SHELF.lock(label, progress or (lambda stage: None)) as builder:
        if built := SHELF.find(label):
            return built.path
        with SHELF.draft(label) as draft:
            try:
                go = fork.compile(draft, suffix, builder)
            except MissingModuleError as error:
                raise SubjectSetupError(str(error)) from error
            if _key(fork) != digest:
                raise SubjectSetupError("the source changed while the kubelet was built from it")
            return SHELF.keep(draft / PROGRAM, label, label, go=go.version())


def kept(fork: Fork) -> Built | None:
    """The kubelet of a fork, if the cache has the one that would be built now."""
    return SHELF.find(f"{fork.version}+{fork.kind}-{_key(fork)}")


def cached() -> list[Built]:
    """The kubelets of forks in the cache, newest version first. Digests are not checked here."""
    return sorted(SHELF.all(), key=lambda one: by_numbers(one.version), reverse=True)


def by_numbers(version: str) -> list[str | int]:
    """What orders versions: texts and numbers in turn, so that 1.9 comes before 1.36."""
    parts = re.split(r"(\d+)", version)
    return [int(part) if part.isdecimal() else part for part in parts]


def _key(fork: Fork) -> str:
    parts = [fork.digest(), *os.uname()[4:]]
    return digest_of_parts(map(str.encode, parts))[:12]
