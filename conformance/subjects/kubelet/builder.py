"""Kubelets of released versions, built from the Go module and kept.

A kubelet is kept in ``$XDG_CACHE_HOME/pinproof/kubelets/VERSION-KEY/`` with a note of its digest;
it is used again only if it still has that digest. The key stands for everything that the build is
made of but the toolchain, so that a changed recipe builds anew. One builder at a time works on a
version: the others wait for it and find what it made.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from conformance.subject import SubjectSetupError, SubjectUsageError
from conformance.subjects.kubelet import recipe, releases
from conformance.subjects.kubelet.golang import Go, GoError
from conformance.subjects.kubelet.recipe import KUBERNETES, Recipe
from conformance.subjects.kubelet.releases import Minor, Version

Progress: TypeAlias = Callable[[str], None]

_BINARY: Final = "kubelet"
_NOTE: Final = "kubelet.json"
#: What Go says of a module or a version that does not exist.
_ABSENT: Final = (
    "403 forbidden", "404 not found", "410 gone", "not found:",
    "unknown revision", "no matching versions",
)  # fmt: skip
#: How ``go mod tidy`` names a module whose source a proxy refuses.
_UNREADABLE: Final = re.compile(
    r"([\w./-]+)@(v\d[\w.+-]*): (?:reading \S+: (?:403|404|410)|not found)", re.ASCII
)
#: How many patch releases that are not listed are tried by name, beyond the newest one that is
#: listed or known, and before it: lists may be incomplete.
_BEYOND: Final = 2
_BEFORE: Final = 4


@dataclass(frozen=True, slots=True)
class Built:
    """A kubelet in the cache. ``digest`` is ``sha256:…``, ``go`` the toolchain's version."""

    version: str
    path: Path
    digest: str
    go: str


def build(target: str, *, progress: Progress | None = None) -> Path:
    """A kubelet of the release ``target`` (``1.36``, ``1.36.4``), from the cache or built now.

    Of a minor, the newest patch release that is known to build is taken; of one without, the
    newest that can be had whole. ``progress`` is told each stage in a few words.

    Raises :class:`SubjectUsageError` where there can be no such release, and
    :class:`SubjectSetupError` where it cannot be built: no Go, no network, a missing module.
    """
    asked = releases.parse(target)
    if asked is None:
        raise SubjectUsageError(f"{target!r} is no release: 1.36 and 1.36.4 are")
    minor = asked.release if isinstance(asked, Version) else asked
    if minor < releases.OLDEST:
        raise SubjectUsageError(f"{target}: {releases.OLDEST} is the oldest that can be driven")
    tell = progress or (lambda stage: None)
    for version in _known(asked):
        found = _in_cache(version)
        if found is not None:
            return found.path
    go = Go.find()
    refusals: list[str] = []
    for version in _candidates(go, asked):
        try:
            return _build(go, version, tell)
        except _MissingModuleError as error:
            refusals.append(str(error))
            tell(str(error))
    raise SubjectSetupError(_nothing_to_be_had(asked, refusals))


def cached() -> list[Built]:
    """What the cache holds whole, newest release first. Digests are not checked here."""
    found = [built for folder in _cache().glob("*/") if (built := _read_note(folder)) is not None]
    return sorted(found, key=lambda built: releases.parse(built.version) or (), reverse=True)


class _MissingModuleError(Exception):
    """A release cannot be had whole."""


# --- which release ---------------------------------------------------------------------------


def _known(asked: Minor | Version) -> tuple[Version, ...]:
    return (asked,) if isinstance(asked, Version) else releases.KNOWN_GOOD.get(asked, ())


def _candidates(go: Go, asked: Minor | Version) -> Iterator[Version]:
    known = _known(asked)
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


def _nothing_to_be_had(asked: Minor | Version, refusals: list[str]) -> str:
    why = f"kubelet {asked} cannot be built: {refusals[0] if refusals else 'no such release'}"
    if not isinstance(asked, Version):
        others = len(refusals) - 1
        return f"{why}, nor any of {others} other patch releases" if others > 0 else why
    known = [str(each) for each in releases.KNOWN_GOOD.get(asked.release, ()) if each != asked]
    if known:
        return f"{why}; {' or '.join(known)} is known to build"
    return f"{why}; another patch release may do: ask for {asked.release}"


# --- building --------------------------------------------------------------------------------


def _build(go: Go, version: Version, tell: Progress) -> Path:
    with _lock(version, tell):
        found = _in_cache(version)
        if found is not None:
            return found.path
        tell(f"looking for kubelet {version}")
        plan = recipe.recipe(version, _go_mod_of(go, version))
        draft = _cache() / f".{version}.draft"
        shutil.rmtree(draft, ignore_errors=True)  # of a builder that was killed
        draft.mkdir()
        try:
            _compile(go, plan, draft, tell)
            return _keep(go, plan, draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _go_mod_of(go: Go, version: Version) -> str:
    """The release's own ``go.mod``."""
    kubernetes = go.describe(f"{KUBERNETES}@v{version}")
    if _is_missing(kubernetes):
        raise _MissingModuleError(f"the module proxy has no {KUBERNETES} v{version}")
    return Path(kubernetes["GoMod"]).read_text()


def _is_missing(module: Mapping[str, Any]) -> bool:
    """Whether the proxy says that there is no such module; raises :class:`SubjectSetupError`
    where it says nothing or something else."""
    if "Error" not in module:
        return False
    said = str(module["Error"].get("Err", ""))
    if any(sign in said.lower() for sign in _ABSENT):
        return True
    last = said.strip().splitlines()[-1:] or ["no reason given"]
    raise SubjectSetupError(f"{module['Path']} cannot be had: {last[0][:300]}", evidence=said)


def _fetch(go: Go, version: Version, folder: Path) -> None:
    """Fetch what the kubelet is made of. Not every staging module is part of it, so only this
    tells whether one that is lacks."""
    try:
        go.run(["mod", "tidy"], folder=folder)
    except GoError as error:
        missing = _UNREADABLE.findall(error.evidence)
        if not missing:
            raise
        (module, its_version), *_ = missing
        raise _MissingModuleError(
            f"kubelet {version} needs {module} {its_version}, which the module proxy does not have"
        ) from error


def _compile(go: Go, plan: Recipe, folder: Path, tell: Progress) -> None:
    (folder / "go.mod").write_text(plan.go_mod)
    (folder / "main.go").write_text(plan.main_go)
    tell(f"fetching the modules of kubelet {plan.version}")
    _fetch(go, plan.version, folder)
    tell(f"compiling kubelet {plan.version}: minutes, the first time")
    go.run(["build", *plan.flags, "-o", _BINARY, "."], folder=folder)


def _keep(go: Go, plan: Recipe, draft: Path) -> Path:
    note = {
        "version": str(plan.version),
        "digest": _digest(draft / _BINARY),
        "go": go.version(),
    }
    (draft / _NOTE).write_text(json.dumps(note, indent=1) + "\n")
    for name in ("go.mod", "go.sum", "main.go"):
        (draft / name).unlink(missing_ok=True)
    place = _place(plan)
    shutil.rmtree(place, ignore_errors=True)  # what did not have its digest any more
    draft.replace(place)
    return place / _BINARY


# --- the cache -------------------------------------------------------------------------------


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "pinproof" / "kubelets"


def _place(plan: Recipe) -> Path:
    """The recipe's ``go.mod`` follows from the release, so it is no part of the key: what the
    cache holds is found without asking anybody."""
    return _cache() / f"{plan.version}-{_key(plan.version)}"


def _key(version: Version) -> str:
    plan = recipe.recipe(version, "")
    parts = (plan.go_mod, plan.main_go, *plan.flags, *os.uname()[4:])
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _in_cache(version: Version) -> Built | None:
    """The kubelet of this version, if it is there and is what was built."""
    built = _read_note(_cache() / f"{version}-{_key(version)}")
    return built if built is not None and _digest(built.path) == built.digest else None


def _read_note(folder: Path) -> Built | None:
    path = folder / _BINARY
    try:
        note = json.loads((folder / _NOTE).read_text())
        built = Built(note["version"], path, note["digest"], note["go"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return built if path.is_file() else None


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


@contextlib.contextmanager
def _lock(version: Version, tell: Progress) -> Iterator[None]:
    """Held by whoever builds this version; the kernel frees it when its holder dies."""
    try:
        _cache().mkdir(parents=True, exist_ok=True)
        lock = (_cache() / f".{version}.lock").open("w")
    except OSError as error:
        raise SubjectSetupError(f"{_cache()} cannot be written: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another build of kubelet {version}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
