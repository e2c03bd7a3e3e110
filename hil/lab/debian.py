"""Trees of Debian's packages, made by mmdebstrap from the archive that this host's apt uses."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from hil.lab import tools
from hil.lab.errors import LabError

_DEADLINE: Final = 1800.0
_STAGE: Final = re.compile(r"I: (.+)\.\.\.")

Say = Callable[[str], None]


def sources() -> tuple[str, ...]:
    """Debian's archive as this host's apt has it, without packages of others. Raises
    :class:`LabError` where it has none."""
    form = "deb $(SITE) $(RELEASE) $(COMPONENT)"
    command = [tools.APT_GET, "indextargets", "--format", form, "Created-By: Packages"]
    lines = tools.run([*command, "Origin: Debian"], deadline=60).splitlines()
    wanted = tuple(dict.fromkeys(line.strip() for line in lines if line.startswith("deb ")))
    if not wanted:
        raise LabError(
            "apt of this host knows no Debian archive, which an image is made from: "
            "run apt-get update on a Debian host"
        )
    return wanted


def version(package: str) -> str:
    """Which version of a package apt would install on this host; raises :class:`LabError`."""
    said = tools.run([tools.APT_CACHE, "policy", package], deadline=60)
    found = re.search(r"^ *Candidate: (\d\S*)$", said, re.MULTILINE)
    if found is None:
        raise LabError(f"apt of this host knows no package {package}: run apt-get update")
    return found[1]


def bootstrap(
    packages: Sequence[str],
    archive: Sequence[str],
    options: Sequence[str],
    target: str,
    say: Say,
    *,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Have mmdebstrap make a tree of ``packages`` from ``archive`` (apt's lines), and write it to
    ``target``, ``-`` for nothing. Raises :class:`LabError`."""
    with tempfile.TemporaryDirectory(prefix="pinproof-") as name:
        Path(name).chmod(0o755)  # mmdebstrap may be another user, in a user namespace of its own
        lines = Path(name) / "sources.list"
        lines.write_text("\n".join(archive) + "\n")
        tools.run(
            [
                tools.MMDEBSTRAP,
                "--aptopt=Apt::Install-Recommends false",
                "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*",
                "--dpkgopt=path-exclude=/usr/share/man/*",
                f"--include={','.join(packages)}",
                *options,
                "", target, str(lines),
            ],
            deadline=_DEADLINE,
            environment=environment,
            heard=lambda line: stage(line, say),
        )  # fmt: skip


def stage(line: str, say: Say) -> None:
    """mmdebstrap(1) notes each stage as ``I: installing essential packages...``. Its hooks hold
    paths of this host."""
    found = _STAGE.fullmatch(line)
    if found and "hook" not in found[1]:
        say(f"building the image: {found[1]}")
