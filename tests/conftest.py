"""What all tests share: a real kubelet where there is one."""

from __future__ import annotations

import os

import pytest

from conformance.subjects.kubelet import cached
from reference import NEWEST, Release


@pytest.fixture(scope="session")
def kubelet_path() -> str:
    """A real kubelet: ``PINPROOF_KUBELET``, else one of the release that the model knows best, out
    of the cache of ``pinproof kubelet build``."""
    if named := os.environ.get("PINPROOF_KUBELET"):
        return named
    for one in cached():
        if Release.parse(one.version).minor == Release.parse(NEWEST).minor:
            return str(one.path)
    pytest.skip(
        "NO REAL KUBELET, so this is NOT TESTED: set PINPROOF_KUBELET to one, or run "
        "`pinproof kubelet build 1.36`"
    )
