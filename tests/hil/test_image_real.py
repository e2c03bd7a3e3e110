"""The container image, made of Debian's packages: minutes, so only where ``PINPROOF_LAB`` asks."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tests.cli.running import pinproof

pytestmark = [pytest.mark.needs("lab"), pytest.mark.needs("mmdebstrap")]


def test_two_builds_are_one_image_and_it_is_small(tmp_path: Path) -> None:
    """Byte for byte; without Go it has less than 250 MB, unpacked."""
    digests = set()
    for name in ("first.tar", "second.tar"):
        said = pinproof("build", "image", "-o", str(tmp_path / name), status=0).stderr
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
        (size,) = re.findall(r"(\d+) MB unpacked", said)
        assert int(size) < 250
    assert len(digests) == 1
