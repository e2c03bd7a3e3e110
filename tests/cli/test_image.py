"""``pinproof build image``: what is in the image, its form, and what the user is told."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from hil.lab import debian
from pinproof.image import contents, making, python_packages
from pinproof.image.archive import archive
from pinproof.names import PACKAGES
from tests.cli.running import here
from tests.support.fork import program

ROOT: Final = Path(__file__).parents[2]
NAME: Final = "registry.example.com/pinproof:1"


def _archive(layer: bytes = b"layer") -> Any:
    return archive(layer, contents.configuration("1"), name=NAME, architecture="amd64")


def _blobs(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        members = [one for one in files.getmembers() if one.isfile()]
        return {one.name: files.extractfile(one).read() for one in members}  # type: ignore[union-attr]


def test_each_blob_has_the_digest_and_the_size_that_refers_to_it() -> None:
    """From the index down to the layer; the image's digest is its manifest's."""
    made = _archive()
    blobs = _blobs(made.content)

    def blob(reference: dict[str, Any]) -> bytes:
        data = blobs["blobs/sha256/" + reference["digest"].removeprefix("sha256:")]
        assert len(data) == reference["size"]
        assert hashlib.sha256(data).hexdigest() == reference["digest"][7:]
        return data

    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["digest"] == made.digest
    assert entry["annotations"]["io.containerd.image.name"] == NAME
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    (packed,) = manifest["layers"]
    layer = gzip.decompress(blob(packed))
    assert layer == b"layer"
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert config["config"]["User"] == f"{contents.USER}:{contents.USER}"


def test_the_same_layer_gives_the_same_archive() -> None:
    assert _archive() == _archive()
    assert _archive().digest != _archive(b"another").digest


_NAMES: Final = (
    NAME, "pinproof", "a/b", "h:5000/a_b/c-d:v1.2", "h/a@sha256:" + "0" * 64, "H.example/a__b",
)  # fmt: skip
_NOT_NAMES: Final = (
    "", "Upper", "a b", "a:", "a/", "/a", "a//b", "a:b c", "-a", "a\n", "a@sha256:1", "a" * 256,
)  # fmt: skip


@pytest.mark.parametrize("name", [*_NAMES, *_NOT_NAMES])
def test_names_of_images(name: str) -> None:
    assert contents.is_image_name(name) is (name in _NAMES)


def test_the_libraries_that_are_pinned_are_those_that_the_project_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    in_image = [line for extra in ("hil", "sandbox", "strategies") for line in extras[extra]]
    for file, required in (
        (python_packages.REQUIREMENTS, project["dependencies"] + in_image),
        (python_packages.REQUIREMENTS_GO, set(extras["kubelet"]) - {"pinproof[sandbox]"}),
    ):
        text = file.read_text()
        pinned = dict(re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", text, re.MULTILINE))
        for line in required:
            requirement = Requirement(line)
            version = Version(pinned[requirement.name])
            assert requirement.specifier.contains(version), line
        for block in re.split(r"\n(?=[a-z])", text.strip()):
            assert "--hash=sha256:" in block, block


def test_pinproof_in_the_image_is_pinproof_here() -> None:
    own = python_packages.own()
    packages = {name.partition("/")[0] for name in own}
    metadata = f"pinproof-{distribution('pinproof').version}.dist-info"
    assert packages == {*PACKAGES, metadata}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert sorted(PACKAGES) == wheel["targets"]["wheel"]["packages"]
    data = {"pinproof/image/requirements.txt", "pinproof/templates/gate.sh"}
    assert own.keys() >= {f"{metadata}/entry_points.txt", f"{metadata}/METADATA", *data}
    assert not [name for name in own if name.endswith((".pyc", "direct_url.json"))]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Stand-ins for apt and mmdebstrap: the tree that comes out is the tar that went in."""
    program(tmp_path, "apt-get", "echo deb http://mirror.example/debian bookworm main")
    program(tmp_path, "apt-cache", "echo '  Candidate: 3.11.2-1'")
    return tmp_path / "bin"


def test_the_command_says_what_it_made(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "mmdebstrap", "exit 1")
    kubelet = tmp_path / "kubelet"
    kubelet.write_bytes(b"kubelet")
    seen: dict[str, Any] = {}

    def bootstrap(
        packages: Any, sources: Any, options: Any, target: str, *_: Any, **more: Any
    ) -> None:
        seen.update(packages=packages, epoch=more["environment"]["SOURCE_DATE_EPOCH"])
        (hook,) = [one for one in options if "tar-in" in one]
        Path(target).write_bytes(Path(hook.split()[1]).read_bytes())

    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(debian, "bootstrap", bootstrap)
    monkeypatch.setattr(python_packages, "libraries", lambda *_: {"six.py": kubelet})
    wanted = making.Wanted(NAME, "1", go=True, kubelet=kubelet)
    made = making.make(wanted, tmp_path / "image.tar", lambda _: None)
    assert (tmp_path / "image.tar").read_bytes() == made.content
    assert seen == {"packages": contents.PACKAGES_WITH_GO, "epoch": "0"}
    blobs = _blobs(made.content)
    largest = max(blobs.values(), key=len)
    with tarfile.open(fileobj=io.BytesIO(largest)) as layer:
        names = layer.getnames()
        packed = layer.extractfile("usr/local/bin/kubelet")
        assert packed is not None
        assert packed.read() == b"kubelet"
    place = "usr/local/lib/python3.11/dist-packages"
    assert {f"{place}/six.py", f"{place}/pinproof/cli.py", "usr/local/bin/pinproof"} <= {*names}
    assert not list(tmp_path.glob(".image.tar*"))


def test_without_mmdebstrap_the_package_is_named(tmp_path: Path, programs: Path) -> None:
    done = here("build", "image", "-o", str(tmp_path / "image.tar"), status=3, PATH=str(programs))
    assert done.stderr == "pinproof: mmdebstrap is not installed: apt-get install mmdebstrap\n"
    assert not (tmp_path / "image.tar").exists()


def test_a_failing_bootstrap_leaves_no_archive(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "mmdebstrap", "echo 'E: no such package' >&2; exit 1")
    monkeypatch.setattr(python_packages, "libraries", lambda *_: {})
    path = f"{programs}:{os.environ['PATH']}"
    done = here("build", "image", "-o", str(tmp_path / "image.tar"), status=3, PATH=path)
    assert done.stderr.splitlines()[-1] == "pinproof: mmdebstrap failed: E: no such package"
    assert list(tmp_path.iterdir()) == [programs]


def test_the_containerfile_copies_what_the_archive_has() -> None:
    text = (ROOT / "Containerfile").read_text()
    lines = re.findall(r"^COPY (?!.*--from)(.*) \S+$", text, re.MULTILINE)
    lists = (python_packages.REQUIREMENTS, python_packages.REQUIREMENTS_GO)
    metadata = {"pyproject.toml", "README.md", "LICENSE", "NOTICE"}
    assert {word for line in lines for word in line.split()} == {
        *PACKAGES, *metadata, *(f"pinproof/image/{one.name}" for one in lists)
    }  # fmt: skip
    assert f"USER {contents.USER}:{contents.USER}" in text
