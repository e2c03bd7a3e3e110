"""Signatures beside a file: by an SSH key (``ssh-keygen -Y``), or by cosign.

What belongs here: how these programs are called, and what their answers mean. What never does: what
is signed. A signature lies beside the file: ``NAME.sig`` of SSH, ``NAME.sigstore.json`` of cosign.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.subject import SubjectSetupError, SubjectUsageError
from topologies.errors import one_line

#: What a signature is for: an SSH signature made for another purpose does not count.
NAMESPACE: Final = "pinproof-certificate"
_DEADLINE: Final = 120.0


class BadSignature(Exception):
    """A signature does not fit; ``str()`` says why in one line."""


def ssh_signature(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def cosign_signature(path: Path) -> Path:
    return path.with_name(f"{path.name}.sigstore.json")


def sign(path: Path, key: Path) -> Path:
    """Sign a file with an SSH key (a private key, or a public one whose private key an agent has);
    the path of the signature. Raises :class:`SubjectUsageError`."""
    _require_file(key, "--sign")
    _program("ssh-keygen", "openssh-client")
    signature = ssh_signature(path)
    signature.unlink(missing_ok=True)
    done = _run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(path)])
    if done.returncode or not signature.is_file():
        raise SubjectUsageError(f"--sign {key}: {_said(done)}")
    return signature


def comment_of(key: Path) -> str:
    """The comment of the public half of an SSH key; ``""`` where there is none."""
    public = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    try:
        words = public.read_text("utf-8", "replace").split(maxsplit=2)
    except OSError:
        return ""
    return one_line(words[2].strip()) if len(words) > 2 else ""


def signer(path: Path, allowed: Path) -> str:
    """Who signed a file, as the file of allowed signers names them (ssh-keygen(1), ALLOWED
    SIGNERS). Raises :class:`BadSignature` and :class:`SubjectUsageError`."""
    _require_file(allowed, "--allowed-signers")
    _program("ssh-keygen", "openssh-client")
    signature = ssh_signature(path)
    if not signature.is_file():
        raise BadSignature(f"there is no signature {signature}")
    found = _run(["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(allowed)])
    names = found.stdout.decode("utf-8", "replace").split()
    if found.returncode or not names:
        raise BadSignature(f"{signature}: not by a key of {allowed}")
    arguments = ["-f", str(allowed), "-I", names[0], "-n", NAMESPACE, "-s", str(signature)]
    done = _run(["ssh-keygen", "-Y", "verify", *arguments], stdin=path.read_bytes())
    if done.returncode:
        raise BadSignature(f"{signature}: {_said(done)}")
    return names[0]


def sign_with_cosign(path: Path, key: Path) -> Path:
    """Sign a file with a key of cosign (version 3); the path of the bundle. Nothing is uploaded:
    the signing configuration names no service. Raises :class:`SubjectUsageError`, and
    :class:`SubjectSetupError` without cosign."""
    _program("cosign", "")
    bundle = cosign_signature(path)
    bundle.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        services = Path(folder) / "no-services.json"
        done = _run(["cosign", "signing-config", "create", f"--out={services}"])
        if not done.returncode:
            words = [f"--key={key}", f"--bundle={bundle}", f"--signing-config={services}"]
            done = _run(["cosign", "sign-blob", "--yes", *words, str(path)])
    if done.returncode or not bundle.is_file():
        raise SubjectUsageError(f"--cosign-key {key}: {_said(done)}")
    return bundle


def verify_with_cosign(path: Path, key: Path) -> None:
    """Raises :class:`BadSignature`, and :class:`SubjectSetupError` without cosign."""
    _program("cosign", "")
    bundle = cosign_signature(path)
    if not bundle.is_file():
        raise BadSignature(f"there is no signature {bundle}")
    done = _run(
        [
            *("cosign", "verify-blob", "--insecure-ignore-tlog=true"),
            *(f"--key={key}", f"--bundle={bundle}", str(path)),
        ]
    )
    if done.returncode:
        raise BadSignature(f"{bundle}: {_said(done)}")


def _require_file(path: Path, option: str) -> None:
    if not path.is_file():
        raise SubjectUsageError(f"{option} {path}: there is no such file")


def _program(name: str, package: str) -> None:
    if shutil.which(name) is None:
        hint = f" (package {package})" if package else ""
        raise SubjectSetupError(f"{name} is not installed{hint}")


def _run(words: Sequence[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            words, input=stdin, capture_output=True, timeout=_DEADLINE, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SubjectSetupError(f"{words[0]} did not end within {_DEADLINE:g} s") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line of a program's message, on one line."""
    lines = re.split(r"[\r\n]+", (done.stderr + done.stdout).decode("utf-8", "replace").strip())
    return one_line(lines[-1]) or f"exit status {done.returncode}"
