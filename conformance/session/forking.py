"""What the fork under test changes on purpose, in a run inside pytest."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import catalogue
from conformance.fork import Fork, read
from conformance.known import KnownFailuresError

_KEY: Final = pytest.StashKey[Fork]()


def fork_of(config: pytest.Config) -> Fork:
    """As the file says that was named; a fork that changes nothing without one. Raises
    :class:`pytest.UsageError`."""
    if _KEY not in config.stash:
        path = config.getoption("--pin-behaviours")
        try:
            fork = read(Path(path), [one.id for one in catalogue()]) if path else Fork()
        except KnownFailuresError as error:
            raise pytest.UsageError(str(error)) from error
        config.stash[_KEY] = fork
    return config.stash[_KEY]
