"""The known failures of a run inside pytest."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import catalogue
from conformance.known import KnownFailures, KnownFailuresError, read
from conformance.session.forking import fork_of

_KEY: Final = pytest.StashKey[KnownFailures]()


def known_of(config: pytest.Config) -> KnownFailures:
    """Those of the files that were named, today: of known failures, and of what a fork changes.

    Raises
    ------
    :class:`pytest.UsageError`.

    """
    if _KEY not in config.stash:
        path = config.getoption("--pin-known")
        try:
            entries = read(Path(path), [one.id for one in catalogue()]) if path else []
        except KnownFailuresError as error:
            raise pytest.UsageError(str(error)) from error
        entries += fork_of(config).differences
        config.stash[_KEY] = KnownFailures(entries, datetime.now(UTC).date())
    return config.stash[_KEY]
