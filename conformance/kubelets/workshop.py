"""Programs around released Kubernetes versions, built from the Go module and kept.

What belongs here: which release is built, and building. What never does: what a program is built
from (``recipe``), and how it is kept (``shelf``).

The key of a kept program is a digest of its recipe, without the toolchain, so that a changed recipe
builds it again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

from conformance.kubelets import releases
from conformance.kubelets.golang import Go, GoError
from conformance.kubelets.recipe import KUBERNETES, Recipe
from conformance.kubelets.releases import Minor, Version
from conformance.kubelets.shelf import Built, Shelf
from conformance.progress import Builder, Progress
from conformance.subject import SubjectSetupError, SubjectUsageError

#: Go's errors for a module or a version that does not exist, at a proxy or in a folder used as one.
_ABSENT: Final = (
    "403 forbidden", "404 not found", "410 gone", "not found:",
    "unknown revision", "no matching versions", "no such file or directory",
)  # fmt: skip
#: How ``go mod tidy`` names a module whose source a proxy refuses.
_UNREADABLE: Final = re.compile(
    r"([\w./-]+)@(v\d[\w.+-]*): (?:reading \S+: (?:403|404|410)|not found)", re.ASCII
)
#: How many patch releases are tried that the proxy does not list: after the newest one that is
#: listed or known, and before it. Lists may be incomplete.
_BEYOND: Final = 2
_BEFORE: Final = 4


#: Makes a recipe from a release, its own ``go.mod``, and a folder that may take the place of the
#: released module.
RecipeMaker: TypeAlias = Callable[[Version, str, Path | None], Recipe]


class MissingModuleError(Exception):
    """The module proxy lacks a part of a release."""


class _NoSuchReleaseError(MissingModuleError):
    """The module proxy does not have the release itself."""


class Workshop:
    """Builds one program, ``name``, for any release from ``oldest`` on."""

    def __init__(self, name: str, oldest: Minor, recipe: RecipeMaker) -> None:
        self._name = name
        self._shelf = Shelf(name, f"{name}s")
        self._oldest = oldest
        self._recipe = recipe

    def build(
        self, target: str, *, replaced: Path | None = None, progress: Progress | None = None
    ) -> Path:
        """The program of the release ``target`` (``1.36``, ``1.36.4``), from the cache or built
        now. ``replaced``, a checkout of Kubernetes, takes the place of the released module; then it
        is always built, which takes seconds if little was changed.

        For a minor, the newest patch release that is known to build is taken; if there is none, the
        newest that the proxy has completely. ``progress`` gets each stage in a few words.

        Raises :class:`SubjectUsageError` if there is no such release or checkout, and
        :class:`SubjectSetupError` if it cannot be built: no Go, no network, a missing module.
        """
        asked = self._asked(target)
        tell = progress or (lambda stage: None)
        if replaced is not None:
            return self._build_replaced(asked, replaced, tell)
        for version in known_to_build(asked):
            built = self._in_cache(version)
            if built is not None:
                return built.path
        go = Go.find()
        refusals: list[MissingModuleError] = []
        for version in _candidates(go, asked):
            try:
                return self._build(go, version, tell)
            except MissingModuleError as error:
                refusals.append(error)
                tell(str(error))
        nothing = self._nothing_to_be_had(asked, [str(one) for one in refusals])
        if all(isinstance(one, _NoSuchReleaseError) for one in refusals):
            raise SubjectUsageError(nothing)
        raise SubjectSetupError(nothing)

    def cached(self) -> list[Built]:
        """The programs in the cache, newest release first. Digests are not checked here."""
        return sorted(
            self._shelf.all(), key=lambda one: releases.parse(one.version) or (), reverse=True
        )

    def ready(self, target: str) -> Path | None:
        """The program of this release, if the cache has the one that would be built now."""
        versions = known_to_build(self._asked(target))
        found = (self._in_cache(version) for version in versions)
        return next((built.path for built in found if built is not None), None)

    def cache(self) -> Path:
        return self._shelf.folder

    # --- which release -----------------------------------------------------------------------

    def _asked(self, target: str) -> Minor | Version:
        asked = releases.parse(target)
        if asked is None:
            raise SubjectUsageError(f"{target!r} is not a release: 1.36 and 1.36.4 are")
        minor = asked.release if isinstance(asked, Version) else asked
        if minor < self._oldest:
            raise SubjectUsageError(f"{target}: {self._oldest} is the oldest that can be driven")
        return asked

    def _nothing_to_be_had(self, asked: Minor | Version, refusals: list[str]) -> str:
        why = f"{self._name} {asked} cannot be built: "
        why += refusals[0] if refusals else "no such release"
        if not isinstance(asked, Version):
            others = len(refusals) - 1
            return f"{why}, nor any of {others} other patch releases" if others > 0 else why
        known = [str(each) for each in releases.KNOWN_GOOD.get(asked.release, ()) if each != asked]
        if known:
            return f"{why}; {' or '.join(known)} is known to build"
        return f"{why}; another patch release may do: ask for {asked.release}"

    # --- building ----------------------------------------------------------------------------

    def _build(self, go: Go, version: Version, tell: Progress) -> Path:
        with self.lock(version, tell) as builder:
            found = self._in_cache(version)
            if found is not None:
                return found.path
            builder.say(f"looking for {self._name} {version}")
            plan = self._recipe(version, _go_mod_of(go, version), None)
            return self._make(go, plan, self._key(version), builder)

    def _build_replaced(self, asked: Minor | Version, replaced: Path, tell: Progress) -> Path:
        version = next(iter(known_to_build(asked)), None)
        if version is None:
            raise SubjectUsageError(f"{asked}: name the patch release that the checkout is made of")
        folder = replaced.expanduser().absolute()
        theirs = folder / "go.mod"
        if not theirs.is_file() or f"module {KUBERNETES}\n" not in theirs.read_text():
            raise SubjectUsageError(f"{folder} is not a checkout of {KUBERNETES}: no such go.mod")
        plan = self._recipe(version, theirs.read_text(), folder)
        key = f"{self._key(version)}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        with self.lock(version, tell) as builder:
            try:
                return self._make(Go.find(), plan, key, builder)
            except MissingModuleError as error:
                raise SubjectSetupError(str(error)) from error

    def _make(self, go: Go, plan: Recipe, key: str, builder: Builder) -> Path:
        version = str(plan.version)
        with self._shelf.draft(version) as draft:
            write_files(plan, draft)
            builder.say(f"fetching the modules of {self._name} {version}")
            fetch(go, f"{self._name} {version}", draft)
            words = [*plan.flags, "-o", self._name, "."]
            compile_program(go, words, f"{self._name} {version}", draft, builder)
            program, go_version = draft / self._name, go.version()
            return self._shelf.keep(program, version, f"{version}-{key}", go=go_version)

    # --- the cache ---------------------------------------------------------------------------

    def _key(self, version: Version) -> str:
        """The recipe's digest. The release's own ``go.mod`` is not part of it, so that the cache is
        read without a request to the proxy."""
        plan = self._recipe(version, "", None)
        sources = [text for _, text in sorted(plan.sources.items())]
        parts = (plan.go_mod, *sources, *plan.flags, *os.uname()[4:])
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def _in_cache(self, version: Version) -> Built | None:
        return self._shelf.find(f"{version}-{self._key(version)}")

    def lock(self, version: Version, tell: Progress) -> AbstractContextManager[Builder]:
        return self._shelf.lock(str(version), tell)


def write_files(plan: Recipe, folder: Path) -> None:
    (folder / "go.mod").write_text(plan.go_mod)
    for name, text in plan.sources.items():
        (folder / name).write_text(text)


def fetch(go: Go, what: str, folder: Path) -> None:
    """Fetch the modules of the program in ``folder``; ``what`` is its name in messages. A program
    needs only some staging modules, so a missing one is found out here. Raises
    :class:`MissingModuleError` and :class:`GoError`."""
    try:
        go.run(["mod", "tidy"], folder=folder)
    except GoError as error:
        missing = _UNREADABLE.findall(error.evidence)
        if not missing:
            raise
        (module, its_version), *_ = missing
        raise MissingModuleError(
            f"{what} needs {module} {its_version}, which the module proxy does not have"
        ) from error


def compile_program(
    go: Go, words: Sequence[str], what: str, folder: Path, builder: Builder
) -> None:
    """``go build WORDS`` in a folder; the last word is the package, and ``what`` is the program's
    name in messages. Raises :class:`GoError`."""
    stage = f"compiling {what}"
    builder.say(f"{stage}: minutes, the first time")
    total = len(go.run(["list", "-deps", words[-1]], folder=folder).split())
    packages: set[str] = set()

    def compiled(package: str) -> None:
        packages.add(package)
        builder.count(stage, len(packages), max(total, len(packages)))

    go.build(words, folder=folder, each=compiled)


def known_to_build(asked: Minor | Version) -> tuple[Version, ...]:
    """The patch releases of a minor that are known to build; for a patch release, itself."""
    return (asked,) if isinstance(asked, Version) else releases.KNOWN_GOOD.get(asked, ())


def _candidates(go: Go, asked: Minor | Version) -> Iterator[Version]:
    known = known_to_build(asked)
    yield from known
    if isinstance(asked, Version):
        return
    listed = sorted(_listed(go, asked), reverse=True)
    newest = max([*listed, *known], default=Version(*asked, -1))
    beyond = [newest._replace(patch=newest.patch + step) for step in range(_BEYOND, 0, -1)]
    before = [newest._replace(patch=newest.patch - step) for step in range(1, _BEFORE + 1)]
    tried = {*known}
    for version in [*beyond, *listed, *before]:
        if version not in tried and version.patch >= 0:
            tried.add(version)
            yield version


def _listed(go: Go, minor: Minor) -> list[Version]:
    words = go.run(["list", "-m", "-versions", KUBERNETES]).split()
    versions = [version for version in map(releases.parse, words) if isinstance(version, Version)]
    return [version for version in versions if version.release == minor]


def _go_mod_of(go: Go, version: Version) -> str:
    kubernetes = go.describe(f"{KUBERNETES}@v{version}")
    if is_missing(kubernetes):
        raise _NoSuchReleaseError(f"the module proxy has no {KUBERNETES} v{version}")
    return Path(kubernetes["GoMod"]).read_text()


def is_missing(module: Mapping[str, Any]) -> bool:
    """Whether the proxy says that there is no such module; raises :class:`SubjectSetupError` for
    any other error."""
    if "Error" not in module:
        return False
    said = str(module["Error"].get("Err", ""))
    if any(sign in said.lower() for sign in _ABSENT):
        return True
    last = said.strip().splitlines()[-1:] or ["no reason given"]
    raise SubjectSetupError(
        f"{module['Path']} cannot be downloaded: {last[0][:300]}", evidence=said
    )
