"""The known failures of a run inside pytest, and what the fork under test changes on purpose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import pytest

from conformance.catalogue import catalogue
from conformance.fork import Fork
from conformance.fork import read as read_fork
from conformance.known import KnownFailures, KnownFailuresError, read
from conformance.records import KnownFailure

_T = TypeVar("_T")
_KNOWN: Final = pytest.StashKey[KnownFailures]()
_FORK: Final = pytest.StashKey[Fork]()


def known_of(config: pytest.Config) -> KnownFailures:
    """The known failures in the named files, as of today: of known failures, and of what a fork
    changes. Raises :class:`pytest.UsageError`."""
    if _KNOWN not in config.stash:
        named: list[KnownFailure] = _read(config, "--pin-known", read, [])
        entries = [*named, *fork_of(config).differences]
        config.stash[_KNOWN] = KnownFailures(entries, datetime.now(UTC).date())
    return config.stash[_KNOWN]


def fork_of(config: pytest.Config) -> Fork:
    """The fork in the named file; without a file, one that changes nothing. Raises
    :class:`pytest.UsageError`."""
    if _FORK not in config.stash:
        config.stash[_FORK] = _read(config, "--pin-behaviours", read_fork, Fork())
    return config.stash[_FORK]


def _read(
    config: pytest.Config, flag: str, read: Callable[[Path, list[str]], _T], nothing: _T
) -> _T:
    """The content of the file that an option names; ``nothing`` without one."""
    path = config.getoption(flag)
    try:
        return read(Path(path), [one.id for one in catalogue()]) if path else nothing
    except KnownFailuresError as error:
        raise pytest.UsageError(str(error)) from error
