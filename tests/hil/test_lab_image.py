"""How the lab's image is made, with stand-ins for the programs that make it."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from hil.lab import image
from hil.lab.errors import LabError
from hil.lab.recipe import MODULES, Recipe

_RELEASE: Final = "6.1.0-1-amd64"
#: In place of chroot: what modprobe and dpkg-query say in the new tree.
_CHROOT: Final = """\
case $2 in
  modprobe) echo "builtin core"; echo "insmod /lib/virtio.ko "; echo "insmod /lib/$5.ko.xz " ;;
  dpkg-query) echo "systemd 252.1"; echo "containerd 1.6.20" ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder before the others of ``PATH``."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}:/usr/sbin:/sbin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def _program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def _tree(folder: Path) -> Path:
    """As far as the hook looks at it."""
    files = [f"boot/vmlinuz-{_RELEASE}", f"boot/config-{_RELEASE}", "bin/busybox"]
    files += ["lib/virtio.ko", *(f"lib/{name}.ko.xz" for name in MODULES)]
    for name in files:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(lzma.compress(b"") if name.endswith(".xz") else b"")
    for name in (f"lib/modules/{_RELEASE}", "etc/systemd/system", "etc/ssh", "var/log"):
        (folder / name).mkdir(parents=True)
    return folder


def _run_hook(recipe: Recipe, programs: Path, out: Path, *by: str) -> None:
    """On a new tree beside the folder that it writes to."""
    _program(programs, "chroot", _CHROOT)
    _program(programs, "mke2fs", "")
    tree, hook = _tree(out.with_name("tree")), f"OUT={out}\n{recipe.hook}"
    subprocess.run([*by, "sh", "-s", str(tree)], input=hook.encode(), check=True)


def test_an_ordinary_user_can_remove_all_that_the_hook_makes(
    tmp_path: Path, programs: Path
) -> None:
    """The hook's root is of a user namespace then: the user's are only the folders that were there
    before."""
    out = tmp_path / "out"
    out.mkdir()
    recipe = Recipe(("deb http://mirror.example/debian bookworm main",))
    _run_hook(recipe, programs, out)
    assert not [place for place in out.iterdir() if place.is_dir()]
    image._finish(recipe, out)
    note: dict[str, Any] = json.loads((out / "image.json").read_text())
    assert note["modules"] == ["virtio.ko", *(f"{name}.ko" for name in MODULES)]
    assert sorted(path.name for path in (out / "modules").iterdir()) == sorted(note["modules"])
    assert not list(out.glob("*.ko*"))


@pytest.mark.needs("root", "sandbox")
def test_the_hook_needs_no_right_to_the_folder_that_it_writes_to(
    tmp_path: Path, programs: Path
) -> None:
    """Its root is of a user namespace that has no name for the folder's owner."""
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o777)
    os.chown(out, 65534, 65534)
    _run_hook(Recipe(()), programs, out, "unshare", "--user", "--map-root-user")
    assert (out / "release").read_text() == f"{_RELEASE}\n"


def test_a_build_that_fails_says_why_though_not_all_of_it_can_be_removed(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what could not be removed."""
    _program(programs, "apt-get", "echo deb http://mirror.example/debian bookworm main")
    _program(
        programs,
        "mmdebstrap",
        'for word; do list=$word; done; touch "${list%/*}/out/another"\n'
        "echo 'E: no such package' >&2; exit 1",
    )
    _program(programs, "mke2fs", "")
    unlink = os.unlink

    def only_of_ours(path: Any, **place: Any) -> None:
        if Path(path).name == "another":
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, **place)

    monkeypatch.setattr(os, "unlink", only_of_ours)
    with pytest.raises(LabError, match="mmdebstrap failed: E: no such package"):
        image.ready_image()
