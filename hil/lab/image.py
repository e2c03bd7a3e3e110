"""The image that lab nodes boot: made of Debian's packages once, then taken from the cache.

What belongs here: making and finding an image. What never does: what is in it
(:mod:`hil.lab.recipe`). The archive is the one that this host's own apt is configured for.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from hil.lab import debian, places, tools
from hil.lab.errors import LabError
from hil.lab.recipe import PACKAGES, Recipe

_NOTE: Final = "image.json"
#: A newer kernel or systemd has no cgroup v1 that a kubelet could use.
_LAST_KERNEL_WITH_V1: Final = (6, 11)
_LAST_SYSTEMD_WITH_V1: Final = 255


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the cache. ``modules`` are kernel modules in the order in which the guest loads
    them; ``cgroup_v1`` tells whether a node of it can have that hierarchy."""

    folder: Path
    digest: str
    kernel: str
    containerd: str
    systemd: str
    modules: tuple[str, ...]
    cgroup_v1: bool

    @property
    def disk(self) -> Path:
        return self.folder / "root.raw"

    @property
    def vmlinuz(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def busybox(self) -> Path:
        return self.folder / "busybox"

    @property
    def size(self) -> int:
        """Bytes on the host's disk."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.rglob("*"))


def ready_image(say: debian.Say = lambda _: None, *, rebuild: bool = False) -> Image:
    """The image of today's recipe, built if the cache has none, or if ``rebuild`` is asked for.

    Raises :class:`hil.lab.errors.LabError` where it cannot be built, and says why in one line.
    """
    recipe = Recipe(debian.sources())
    place = places.images() / recipe.digest[:16]
    if not rebuild and (found := _read(place)):
        return found
    with places.made_once(f"image-{recipe.digest[:16]}", say):
        return (None if rebuild else _read(place)) or _build(recipe, place, say)


def kept(name: str) -> Image:
    """The image of that folder in the cache, for a node that was made of it; raises
    :class:`LabError` where it was removed."""
    found = _read(places.images() / name)
    if found is None:
        raise LabError(f"the image that the node was made of is gone: {places.images() / name}")
    return found


def _build(recipe: Recipe, place: Path, say: debian.Say) -> Image:
    tools.need(tools.MMDEBSTRAP, tools.MKE2FS)
    say("building the image from Debian packages (once; about two minutes)")
    began = time.monotonic()
    for left in place.parent.glob(f".{place.name}.*"):
        shutil.rmtree(left, ignore_errors=True)  # of a build that was killed
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{place.name}.", dir=place.parent, ignore_cleanup_errors=True
        ) as name:
            draft = Path(name)
            out = draft / "out"
            _bootstrap(recipe, draft, out, say)
            _finish(recipe, out)
            shutil.rmtree(place, ignore_errors=True)
            out.rename(place)
    except OSError as error:
        raise LabError(f"the image cannot be kept: {error}") from error
    image = _read(place)
    assert image is not None
    say(f"the image is built: {image.size >> 20} MiB, {time.monotonic() - began:.0f} s")
    return image


def _bootstrap(recipe: Recipe, draft: Path, out: Path, say: debian.Say) -> None:
    """Without root, mmdebstrap is another user in a user namespace of its own, and needs access to
    what it reads and writes."""
    out.mkdir()
    draft.chmod(0o755)
    out.chmod(0o777)
    hook = draft / "hook"
    hook.write_text(f"OUT={quote(str(out))}\n{recipe.hook}")
    overlay = draft / "overlay.tar"
    overlay.write_bytes(recipe.overlay())
    debian.bootstrap(
        PACKAGES,
        recipe.sources,
        [
            "--variant=minbase",
            "--format=null",
            f"--customize-hook=tar-in {overlay} /",
            f'--customize-hook=sh {quote(str(hook))} "$1"',
        ],
        "-",
        say,
    )


def _finish(recipe: Recipe, out: Path) -> None:
    """Unpack the modules, and write down what the image is."""
    (out / "modules").mkdir()
    modules = []
    for name in (out / "modules.list").read_text().split():
        packed = out / name
        modules.append(name.removesuffix(".xz"))
        if name == modules[-1]:
            packed.rename(out / "modules" / name)
        else:
            (out / "modules" / modules[-1]).write_bytes(lzma.decompress(packed.read_bytes()))
            packed.unlink()
    rows = (line.split() for line in (out / "packages").read_text().splitlines())
    versions = {row[0]: row[1] for row in rows if len(row) == 2}
    kernel = (out / "release").read_text().strip()
    systemd = versions.get("systemd", "")
    note = {
        "digest": recipe.digest,
        "kernel": kernel,
        "containerd": versions.get("containerd", ""),
        "systemd": systemd,
        "modules": modules,
        "cgroup_v1": _has_v1(kernel, systemd),
    }
    (out / _NOTE).write_text(json.dumps(note, indent=1))
    out.chmod(0o755)


def _has_v1(kernel: str, systemd: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", kernel)
    newest = (int(found[1]), int(found[2])) if found else (99, 0)
    major = re.match(r"(\d+)", systemd)
    return (
        newest <= _LAST_KERNEL_WITH_V1
        and major is not None
        and int(major[1]) <= _LAST_SYSTEMD_WITH_V1
    )


def _read(place: Path) -> Image | None:
    """The image at ``place``, if it is there and whole: its note is written last."""
    try:
        note = json.loads((place / _NOTE).read_text())
        note["modules"] = tuple(note["modules"])
        found = Image(folder=place, **note)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if found.disk.is_file() and found.vmlinuz.is_file() else None
