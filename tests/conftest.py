"""What all tests share: a real kubelet where there is one, and what no wheel holds:
benchmarks, differential tests and support."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from conformance.kubelets import cached
from reference import NEWEST, Release

# Last, so that the packages under test are the installed ones.
sys.path.append(str(Path(__file__).parents[1]))

# How long an example takes hangs on who else uses the machine.
settings.register_profile("pinproof", deadline=None)
settings.load_profile("pinproof")


def pytest_configure() -> None:
    """A shell that runs jobs in the background lets them ignore Ctrl-C, which tests send."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
