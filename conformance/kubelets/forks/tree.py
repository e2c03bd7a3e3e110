"""The kubelet of a source tree: a checkout of a fork."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.kubelets.forks.making import PROGRAM, contents, digest_of_parts, release, text_of
from conformance.kubelets.golang import Go
from conformance.kubelets.recipe import KUBERNETES, flags
from conformance.kubelets.releases import Version
from conformance.kubelets.workshop import compile_program
from conformance.progress import Builder
from conformance.subject import SubjectUsageError

#: Names the minor of a source tree, from 1.31 on.
_BINARY_VERSION: Final = re.compile(r'DefaultKubeBinaryVersion\s*=\s*"(\d+\.\d+)"', re.ASCII)
_VERSION_FILE: Final = "staging/src/k8s.io/component-base/version/base.go"


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout of a fork, built from its own vendor folder without any network."""

    folder: Path
    version: Version
    kind: str = "tree"

    @classmethod
    def at(cls, folder: Path, target: str) -> Tree:
        """The checkout in ``folder``, based on the release ``target``. Raises
        :class:`SubjectUsageError` if it cannot be built offline, or is of another release."""
        folder = folder.expanduser().absolute()
        if f"module {KUBERNETES}\n" not in text_of(folder / "go.mod"):
            raise SubjectUsageError(f"{folder} is not a checkout of {KUBERNETES}: no such go.mod")
        if not (folder / "vendor" / "modules.txt").is_file():
            raise SubjectUsageError(
                f"{folder} has no vendor folder (vendor/modules.txt), so it cannot be built offline"
            )
        version = release(target, wanted="--tree")
        own = _BINARY_VERSION.search(text_of(folder / _VERSION_FILE))
        if own is not None and own[1] != str(version.release):
            raise SubjectUsageError(f"{folder} is a checkout of {own[1]}, not of {version}")
        return cls(folder, version)

    def digest(self) -> str:
        """A digest of every file, tracked by git or not."""
        return digest_of_parts([*contents(self.folder), *map(str.encode, flags(self.version))])

    def compile(self, draft: Path, suffix: str, builder: Builder) -> Go:
        """As :meth:`Fork.compile`. The tree stays as it is."""
        settings = {"GOFLAGS": "-mod=vendor", "GOPROXY": "off"}
        if (self.folder / "go.work").is_file():
            settings["GOWORK"] = str(self.folder / "go.work")
        go = Go.find(**settings)
        output = str(draft / PROGRAM)
        words = [*flags(self.version, suffix=suffix), "-o", output, "./cmd/kubelet"]
        compile_program(go, words, f"kubelet {self.version}{suffix}", self.folder, builder)
        return go
