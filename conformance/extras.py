"""The extras of an installation: which one brings a missing library.

The smallest installation has the model, the catalogue, the hunt and the reports. What talks to
kubelets and to nodes comes with extras, as ``pyproject.toml`` names them.
"""

from __future__ import annotations

import traceback
from importlib import import_module
from typing import Final

#: How each library is imported; its name, and the extra that brings it.
LIBRARIES: Final = {
    "cryptography": ("cryptography", "hil"),
    "google": ("protobuf", "sandbox"),
    "grpc": ("grpcio", "sandbox"),
    "h2": ("h2", "hil"),
    "hypothesis": ("hypothesis", "strategies"),
    "kubernetes": ("kubernetes", "kubeconfig"),
    "paramiko": ("paramiko", "hil"),
    "requests": ("requests", "kubeconfig"),
    "testinfra": ("pytest-testinfra", "hil"),
    "urllib3": ("urllib3", "kubeconfig"),
    "wsproto": ("wsproto", "kubeconfig"),
}


def missing(error: BaseException) -> str:
    """One line that names the library and its extra, if ``error`` says that a library of an extra
    is not installed; ``""`` for any other error. A library that ``hil`` imports belongs to extra
    ``hil``."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    library, extra = LIBRARIES.get((error.name or "").partition(".")[0], ("", ""))
    if not library:
        return ""
    if extra == "sandbox" and _of_real_nodes(error):
        extra = "hil"
    with_go = ", or with Go 'pinproof[kubelet]'" if extra == "sandbox" else ""
    return f"{library} is not installed: pip install 'pinproof[{extra}]'{with_go}"


def require(library: str) -> None:
    """Raises :class:`ModuleNotFoundError` early if a library is not installed that is needed late.
    ``library`` is a key of :data:`LIBRARIES`."""
    assert library in LIBRARIES, library
    import_module(library)


def _of_real_nodes(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__", "").startswith("hil.") for frame, _ in frames)
