"""The project as it is built and installed, once for all tests."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.installing.built import build, copied, environment
from tests.support import lacking


class Built(NamedTuple):
    """A wheel, a source distribution, and the wheel that is built of that."""

    wheel: Path
    sdist: Path
    again: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Of the checkout as git has it."""
    lacking.module("hatchling")
    folder = tmp_path_factory.mktemp("built")
    source = copied(folder / "source")
    wheel, sdist = (build(source, folder / kind, kind) for kind in ("wheel", "sdist"))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return Built(wheel, sdist, build(unpacked, folder / "again", "wheel"))


@pytest.fixture(scope="session")
def programs(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of an environment with the wheel, and no library beyond what it requires."""
    return environment(tmp_path_factory.mktemp("light") / "venv", built.wheel)
