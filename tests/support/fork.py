"""A repository of a kubelet fork, and the shell of a CI job in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def program(folder: Path, name: str, text: str) -> None:
    """A program in ``folder/bin``, which :func:`shell` finds first. ``text`` is bash."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}")
    path.chmod(0o755)


def git(folder: Path, *words: str) -> None:
    """Git, with an author. Raises :class:`subprocess.CalledProcessError`."""
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, timeout=60)


def committed(folder: Path) -> None:
    """Make ``folder`` a repository, with one file of sources in its one commit."""
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/kubelet.go").write_text("package kubelet\n")
    for words in (["init", "-q"], ["add", "pkg"], ["commit", "-q", "-m", "first"]):
        git(folder, *words)


def shell(folder: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a job does, with these variables. What this project's own CI sets would name
    its kubelet, not the fork's, and is left out."""
    path = f"{folder / 'bin'}{os.pathsep}{variables.pop('PATH', os.environ['PATH'])}"
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("GITHUB_", "PINPROOF_", "PYTEST_"))
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, "PATH": path, **variables},
        timeout=300,
        check=False,
    )
