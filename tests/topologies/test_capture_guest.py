"""The guest's initramfs, as others read it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import lacking
from topologies.capturing import CaptureError, guest
from topologies.capturing.kernels import parts


def test_the_archive_is_one_that_cpio_unpacks(tmp_path: Path) -> None:
    program = shutil.which("cpio") or lacking.program("busybox")
    command = [program] if program.endswith("cpio") else [program, "cpio"]
    image = guest.initramfs(b"#!busybox", plug=[2, 3], unplug=[3], offline=[1])
    subprocess.run([*command, "-i", "-d"], input=image, cwd=tmp_path, check=True)
    assert (tmp_path / "bin/busybox").read_bytes() == b"#!busybox"
    assert os.access(tmp_path / "init", os.X_OK)
    assert (tmp_path / "proc").is_dir()
    init = (tmp_path / "init").read_text()
    assert "for cpu in 2 3; do" in init
    assert "for cpu in 1; do echo 0" in init
    assert "@" not in init
    checked = subprocess.run(["/bin/sh", "-n", tmp_path / "init"], check=False)
    assert checked.returncode == 0


def test_every_member_begins_at_a_multiple_of_four() -> None:
    image = guest.cpio({"a": (0o100644, b"x"), "bc": (0o100644, b"12345")})
    assert len(image) % 4 == 0
    starts = [at for at in range(0, len(image), 4) if image[at : at + 6] == b"070701"]
    assert len(starts) == 3
    assert image.count(b"070701") == 3


# --- where kernels come from -----------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pinproof" / "kernels"


def test_the_newest_kernel_of_the_cache_is_taken_without_asking(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for name in ("linux-image-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64"):
        (cache / name).mkdir(parents=True)
        for part in ("vmlinuz", "busybox"):
            (cache / name / part).write_bytes(b"")
    (cache / "linux-image-6.12.0-1-amd64").mkdir()
    assert parts().kernel == cache / "linux-image-6.1.0-56-amd64" / "vmlinuz"


def test_a_host_without_apt_is_told_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CaptureError, match="the kernel is a Debian package, and there is no apt"):
        parts()
    assert not cache.exists()


def test_what_apt_says_is_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    answers = {
        "apt-cache": "echo '  Depends: linux-image-6.1.0-9-cloud-amd64'",
        "apt-get": "echo 'E: no \033[31mroute' >&2; exit 100",
        "dpkg-deb": "exit 1",
    }
    for name, body in answers.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with pytest.raises(CaptureError) as caught:
        parts()
    assert str(caught.value) == (
        r"cannot capture with QEMU: apt-get -q download: E: no \x1b[31mroute"
    )
    assert list(cache.iterdir()) == []
    (programs / "apt-cache").write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(CaptureError, match="run apt-get update"):
        parts()
