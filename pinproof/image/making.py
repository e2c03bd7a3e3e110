"""Makes an image: libraries are fetched, Debian's packages unpacked, and all of it packed."""

from __future__ import annotations

import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.lab import debian, tools
from hil.lab.errors import LabError, LabUsageError
from hil.lab.recipe import tar
from pinproof.image import contents, python_packages
from pinproof.image.archive import Archive, archive
from topologies.capturing.saving import write_whole

#: Architectures that Go and the image specification call by other names than Linux.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_EXAMPLE: Final = "registry.example.com/pinproof:1"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image: its name, whether it can build kubelets, and a kubelet to put into it."""

    name: str
    version: str
    go: bool = False
    kubelet: Path | None = None


def make(wanted: Wanted, to: Path, say: debian.Say) -> Archive:
    """Make the image and write it to ``to``, whole or not at all. Raises
    :class:`hil.lab.errors.LabUsageError` for a name, kubelet or path that cannot be used, and
    :class:`LabError` where the image cannot be made."""
    _check(wanted, to)
    tools.need(tools.MMDEBSTRAP)
    made = archive(
        _layer(wanted, say),
        contents.configuration(wanted.version),
        name=wanted.name,
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
    )
    say("building the image: writing the archive")
    _write(made.content, to)
    return made


def _check(wanted: Wanted, to: Path) -> None:
    """Refuse what would fail only after minutes."""
    if not contents.is_image_name(wanted.name):
        raise LabUsageError(f"--name {wanted.name!r}: not the name of an image, such as {_EXAMPLE}")
    if wanted.kubelet is not None and not wanted.kubelet.is_file():
        raise LabUsageError(f"--kubelet {wanted.kubelet}: no such file")
    if to.is_dir():
        raise LabUsageError(f"--output {to}: a folder, not a file")
    if not to.absolute().parent.is_dir() or not os.access(to.absolute().parent, os.W_OK):
        raise LabUsageError(f"--output {to}: the archive cannot be written to that folder")


def _layer(wanted: Wanted, say: debian.Say) -> bytes:
    """The tar of all files."""
    sources = debian.sources()
    python = ".".join(debian.version("python3").split(".")[:2])
    with tempfile.TemporaryDirectory(prefix="pinproof-") as name:
        draft = Path(name)
        say("building the image: fetching libraries")
        requirements = [python_packages.REQUIREMENTS]
        if wanted.go:
            requirements.append(python_packages.REQUIREMENTS_GO)
        files = python_packages.libraries(draft / "libraries", python, requirements)
        files |= python_packages.own()
        own = draft / "packages.tar"
        own.write_bytes(tar(python_packages.in_image(files, python, wanted.kubelet), {}))
        made = draft / "layer.tar"
        debian.bootstrap(
            contents.PACKAGES_WITH_GO if wanted.go else contents.PACKAGES,
            sources,
            [
                "--variant=essential",
                f"--hook-dir={contents.MERGED}",
                "--format=tar",
                "--skip=output/dev",
                f"--customize-hook=tar-in {own} /",
                f"--customize-hook={contents.hook(python, python_packages.folder(python))}",
            ],
            str(made),
            say,
            environment={**os.environ, "SOURCE_DATE_EPOCH": "0"},
        )
        say("building the image: packing")
        return made.read_bytes()


def _write(content: bytes, to: Path) -> None:
    try:
        write_whole(to, content, mode=0o644)
    except OSError as error:
        raise LabError(f"{to}: the archive cannot be written: {error.strerror}") from error
