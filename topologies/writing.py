"""Trees laid out on disk, for a kubelet to take for its own machine."""

from __future__ import annotations

import os
from pathlib import Path

from topologies.errors import UnwritableMachine
from topologies.paths import check_link, check_nesting, clean
from topologies.tree import Link, Tree


def write(tree: Tree, directory: str | os.PathLike[str]) -> None:
    """Lay ``tree`` out below ``directory``, which is made, or is there and empty.

    Files are mode 0644, folders 0755 (less the umask), links are links. Nothing is written
    outside: paths and targets are checked first, and links are made last, so that no path leads
    through one. Raises :class:`UnwritableMachine`.
    """
    place = Path(directory)
    try:
        check_tree(tree)
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise ValueError("it is not empty")
        _lay_out(tree, place)
    except OSError as error:
        raise UnwritableMachine(str(place), error.strerror or str(error)) from error
    except ValueError as error:
        raise UnwritableMachine(str(place), str(error)) from error


def check_tree(tree: Tree) -> None:
    """Raise ``ValueError`` where laying ``tree`` out could lead out of the folder."""
    for path, text in tree.items():
        if not path or clean(path) != path:
            raise ValueError(f"the tree holds a path that is not plain: {path!r}")
        if isinstance(text, Link):
            try:
                check_link(path, text)
            except ValueError as error:
                raise ValueError(f"the tree holds {error}: {path} -> {text}") from error
    check_nesting(tree)


def _lay_out(tree: Tree, place: Path) -> None:
    """Relative to one open folder after another: the kernel then resolves one name a file."""
    by_folder: dict[str, list[tuple[str, str]]] = {}
    for path, text in tree.items():
        folder, _, name = path.rpartition("/")
        by_folder.setdefault(folder, []).append((name, text))
    made = {""}
    for folder in by_folder:
        _make(place, folder, made)
    links: list[tuple[str, Link]] = []
    for folder, members in by_folder.items():
        descriptor = os.open(place / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name, text in members:
                if isinstance(text, Link):
                    links.append((f"{folder}/{name}" if folder else name, text))
                else:
                    _write_file(descriptor, name, text)
        finally:
            os.close(descriptor)
    for path, target in links:
        (place / path).symlink_to(target)


def _make(place: Path, folder: str, made: set[str]) -> None:
    if folder in made:
        return
    _make(place, folder.rpartition("/")[0], made)
    os.mkdir(place / folder)  # noqa: PTH102  - thousands of them: no object each
    made.add(folder)


def _write_file(folder: int, name: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o644, dir_fd=folder)
    try:
        data = text.encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
