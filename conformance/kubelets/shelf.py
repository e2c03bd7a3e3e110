"""Programs that were built, kept in the user's cache.

A program is kept in ``$XDG_CACHE_HOME/pinproof/FOLDER/KEY/`` with a note of its digest; it is used
again only if it still has that digest. One builder at a time works on a version. The others wait
for it and find its program.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from conformance.kubelets.binary import digest_of
from conformance.progress import Builder, Progress, of_another
from conformance.subject import SubjectSetupError
from topologies.user_cache import cache_folder

#: Seconds between two looks at another builder's progress.
_LOOK: Final = 0.5


@dataclass(frozen=True, slots=True)
class Built:
    """A program in the cache. ``digest`` is ``sha256:…``, ``go`` the toolchain's version."""

    version: str
    path: Path
    digest: str
    go: str


class Shelf:
    """The kept programs called ``name``, in the cache's ``folder``."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self._folder = folder

    @property
    def folder(self) -> Path:
        return cache_folder(self._folder)

    def all(self) -> list[Built]:
        """The kept programs, in no order. Digests are not checked here."""
        notes = (self._read_note(folder) for folder in self.folder.glob("*/"))
        return [built for built in notes if built is not None]

    def find(self, key: str) -> Built | None:
        """The program under this key, if it is there and has its digest."""
        built = self._read_note(self.folder / key)
        return built if built is not None and digest_of(built.path) == built.digest else None

    @contextlib.contextmanager
    def draft(self, version: str) -> Iterator[Path]:
        """A fresh folder to build in, for the holder of this version's lock; it is removed
        afterwards."""
        folder = self.folder / f".{version}.draft"
        shutil.rmtree(folder, ignore_errors=True)  # left by a builder that was killed
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, program: Path, version: str, key: str, *, go: str) -> Path:
        """Keep the program of a draft under this key; returns its new path."""
        note = {"version": version, "digest": digest_of(program), "go": go}
        whole, place = program.with_name(".whole"), self.folder / key
        whole.mkdir()
        (whole / f"{self.name}.json").write_text(json.dumps(note, indent=1) + "\n")
        program.replace(whole / self.name)
        if place.is_symlink():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)  # of a program without its digest
        whole.replace(place)
        return place / self.name

    def _read_note(self, folder: Path) -> Built | None:
        path = folder / self.name
        try:
            note = json.loads((folder / f"{self.name}.json").read_text())
            built = Built(note["version"], path, note["digest"], note["go"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return built if path.is_file() else None

    @contextlib.contextmanager
    def lock(self, version: str, tell: Progress) -> Iterator[Builder]:
        """The lock of the builder of this version; the kernel frees it when its holder dies. While
        it waits, ``tell`` gets another builder's progress. The value takes the holder's stages."""
        progress = self.folder / f".{version}.progress"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / f".{version}.lock").open("w")
        except OSError as error:
            raise SubjectSetupError(f"{self.folder} cannot be written: {error.strerror}") from error
        with lock:
            last = ""
            while not taken(lock):
                stage = of_another(progress, f"{self.name} {version}")
                if stage != last:
                    tell(stage)
                last = stage
                time.sleep(_LOOK)
            progress.unlink(missing_ok=True)  # left by a builder that was killed
            try:
                yield Builder(progress, tell)
            finally:
                progress.unlink(missing_ok=True)


def taken(lock: IO[str] | int) -> bool:
    """Take the lock if it is free, and keep it until no process has the file open. Returns whether
    it was taken."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
