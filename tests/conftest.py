"""What all tests share: a real kubelet where there is one, and what no wheel holds:
benchmarks, differential tests and support."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from conformance.kubelets import cached
from reference import NEWEST, Release

# Last, so that the packages under test are the installed ones.
sys.path.append(str(Path(__file__).parents[1]))

from tests.support import lacking

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
    of the cache of ``pinproof build kubelet``; and a sandbox can be made for it."""
    lacking.need("sandbox")
    if named := os.environ.get("PINPROOF_KUBELET"):
        return named
    for one in cached():
        if Release.parse(one.version).minor == Release.parse(NEWEST).minor:
            return str(one.path)
    return lacking.skip("kubelet", "or set PINPROOF_KUBELET to one")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """``needs`` names parts of :mod:`tests.support.lacking` that the machine must have."""
    lacking.need(*(str(part) for mark in item.iter_markers("needs") for part in mark.args))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """What was not tested, and what it takes; after the list of all skips."""
    yield
    lacking.write_block(terminalreporter)
