"""One kubelet and one driver of a release that hold all of its mutants, built and kept.

They are kept in ``$XDG_CACHE_HOME/pinproof/mutants/VERSION-KEY/``: the changed module, the list of
mutants, and where the programs are. The key stands for the Go program that plants, and for what is
planted in.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from conformance.kubelets import recipe, releases
from conformance.kubelets.golang import Go
from conformance.kubelets.releases import Version
from conformance.kubelets.workshop import Workshop
from conformance.progress import Progress
from conformance.subject import SubjectUsageError
from conformance.subjects.exec import drivers
from differential.command import key_of
from differential.mutants import planting
from differential.mutants.planting import Mutant, Planted
from topologies.user_cache import cache_folder

KUBELETS: Final = Workshop("mutant-kubelet", releases.OLDEST, recipe.recipe)
DRIVERS: Final = Workshop("mutant-driver", drivers.OLDEST, drivers.recipe)


class _Kept(msgspec.Struct):
    """The file ``planted.json`` of a folder of the cache."""

    mutants: tuple[Mutant, ...]
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Built:
    """The programs of a changed release. ``folder``: the cache's, with the changed module."""

    version: Version
    folder: Path

    def driver(self, progress: Progress | None = None) -> Path:
        """The driver of this module, built where it has not been yet."""
        return self._built(DRIVERS, progress)

    def kubelet(self, progress: Progress | None = None) -> Path:
        """The kubelet of this module, built where it has not been yet, which takes minutes."""
        return self._built(KUBELETS, progress)

    def ready_kubelet(self) -> Path | None:
        """The kubelet, where it has been built before."""
        return self._kept(KUBELETS)

    def _kept(self, workshop: Workshop) -> Path | None:
        note = self.folder / f"{workshop.cache().name}.path"
        path = Path(note.read_text()) if note.is_file() else None
        return path if path is not None and path.is_file() else None

    def _built(self, workshop: Workshop, progress: Progress | None) -> Path:
        found = self._kept(workshop)
        if found is None:
            module = self.folder / "module"
            found = workshop.build(str(self.version), replaced=module, progress=progress)
            (self.folder / f"{workshop.cache().name}.path").write_text(str(found))
        return found


@dataclass(frozen=True, slots=True)
class Programs(Built):
    """The programs that hold all mutants of a release."""

    planted: Planted


def programs(target: str, progress: Progress | None = None) -> Programs:
    """The mutants of the release ``target`` (``1.36``, ``1.36.4``), from the cache or planted now.
    Raises :class:`SubjectUsageError` and :class:`conformance.subject.SubjectSetupError`."""
    version = _version(target)
    folder = cache_folder("mutants") / f"{version}-{_key()}"
    note = folder / "planted.json"
    if not note.is_file():
        if progress is not None:
            progress(f"planting faults in {version}")
        _plant(version, folder)
    kept = msgspec.json.decode(note.read_bytes(), type=_Kept)
    return Programs(version, folder, Planted(kept.mutants, {}, kept.texts))


def _plant(version: Version, folder: Path) -> None:
    go = Go.find()
    with tempfile.TemporaryDirectory() as scratch:
        planted = planting.plant(go, version, Path(scratch))
    planting.copy_module(planting.module_folder(go, version), planted.sources, folder / "module")
    kept = _Kept(planted.mutants, dict(planted.texts))
    (folder / "planted.json").write_bytes(msgspec.json.encode(kept))


def _version(target: str) -> Version:
    asked = releases.parse(target)
    if isinstance(asked, Version):
        return asked
    known = releases.KNOWN_GOOD.get(asked, ()) if asked is not None else ()
    if not known:
        raise SubjectUsageError(f"{target}: name a patch release, such as 1.36.4")
    return known[0]


def _key() -> str:
    sources = [each.read_bytes() for each in sorted(planting.PLANT.rglob("*.go"))]
    return key_of([*sources, repr(planting.AREAS).encode()])
