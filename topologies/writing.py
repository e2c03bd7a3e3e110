"""Trees written to disk, where a kubelet reads them as its machine."""

from __future__ import annotations

import os
from pathlib import Path

from topologies.errors import UnwritableMachine
from topologies.paths import check_link, check_nesting, clean
from topologies.tree import Link, Tree


def write(tree: Tree, directory: str | os.PathLike[str], *, share: bool = False) -> None:
    """Lay ``tree`` out below ``directory``, which is made, or is there and empty.

    Files are mode 0644, folders 0755 (less the umask), links are links. With ``share``, files of
    the same text are one file under several names: for a tree that is read and never written, at a
    quarter of the time. Nothing is written outside: paths and targets are checked first, and links
    are made last, so that no path leads through one. Raises :class:`UnwritableMachine`.
    """
    place = Path(directory)
    try:
        check_tree(tree)
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise ValueError("it is not empty")
        _lay_out(tree, place, share=share)
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
                raise ValueError(f"the tree holds {error}") from error
    check_nesting(tree)


def _lay_out(tree: Tree, place: Path, *, share: bool) -> None:
    """Write relative to one open folder, without an object for each of thousands of paths."""
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for folder in _folders(tree):
            os.mkdir(folder, dir_fd=root)
        links: list[tuple[Link, str]] = []
        first: dict[str, str] = {}
        for path, text in tree.items():
            if isinstance(text, Link):
                links.append((text, path))
            elif share and text in first:
                os.link(first[text], path, src_dir_fd=root, dst_dir_fd=root)
            else:
                _write_file(root, path, text)
                first[text] = path
        for target, path in links:
            os.symlink(target, path, dir_fd=root)
    finally:
        os.close(root)


def _folders(tree: Tree) -> list[str]:
    """All folders, each after the one that it is in."""
    found: set[str] = set()
    for path in tree:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(found)


def _write_file(root: int, path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644, dir_fd=root)
    try:
        data = text.encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
