"""Keys of a lab node: one pair to log in with, one that the node shows, made for this node alone.

``ssh-keygen`` makes them before the node exists, so host keys are checked from the first connection
on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hil.lab import tools
from hil.lab.payload import Keys

LOGIN: Final = "id_ed25519"
HOST: Final = "host_ed25519"
KNOWN_HOSTS: Final = "known_hosts"


def make(folder: Path, *, port: int) -> Keys:
    """Make both pairs in ``folder``, replacing what is there, and the ``known_hosts`` for a node at
    127.0.0.1 and ``port``."""
    for name, comment in ((LOGIN, "pinproof-lab"), (HOST, "pinproof-lab-node")):
        for suffix in ("", ".pub"):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)
        command = [tools.SSH_KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", name]
        tools.run(command, deadline=30, cwd=folder)
    keys = read(folder)
    known(folder, keys, port=port)
    return keys


def read(folder: Path) -> Keys:
    return Keys(
        host_private=(folder / HOST).read_text(),
        host_public=(folder / f"{HOST}.pub").read_text(),
        login_public=(folder / f"{LOGIN}.pub").read_text(),
    )


def known(folder: Path, keys: Keys, *, port: int) -> None:
    """Write ``known_hosts``."""
    kind, key = keys.host_public.split()[:2]
    (folder / KNOWN_HOSTS).write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
