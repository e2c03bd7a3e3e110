"""The environment of a program that a thread starts."""

from __future__ import annotations

import os


def own_environment() -> dict[str, str]:
    """A copy of this process's environment, for ``env=`` of :mod:`subprocess`.

    Without ``env=`` a child reads the environment of this process while it starts. Where another
    thread changes it at that moment, as pytest does with ``PYTEST_CURRENT_TEST``, the kernel
    refuses the program with "Bad address".
    """
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}
