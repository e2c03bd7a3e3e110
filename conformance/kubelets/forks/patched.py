"""The kubelet of a release with a series of patches."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from conformance.kubelets.forks import patching
from conformance.kubelets.forks.making import STAGING, compile_module, digest_of_parts, release
from conformance.kubelets.forks.patching import Patch
from conformance.kubelets.golang import Go
from conformance.kubelets.recipe import (
    KUBERNETES,
    Recipe,
    flags,
    recipe,
    staged_modules,
    staged_version,
)
from conformance.kubelets.releases import Version
from conformance.progress import Builder


@dataclass(frozen=True, slots=True)
class Patched:
    """A release with a series of patches."""

    version: Version
    patches: tuple[Patch, ...]
    kind: str = "patched"

    @classmethod
    def at(cls, folder: Path, target: str) -> Patched:
        """The patches of a folder over the release ``target``. Raises
        :class:`SubjectUsageError`."""
        version = release(target, wanted="--patches")
        return cls(version, tuple(patching.patches_of(folder.expanduser().absolute())))

    def digest(self) -> str:
        """A digest of the patches in their order, and of how the release is built."""
        plan = recipe(self.version, "")
        parts = [plan.go_mod, *plan.sources.values(), *plan.flags]
        patches = [part for one in self.patches for part in (bytes([one.strip]), one.content)]
        return digest_of_parts([*map(str.encode, parts), *patches])

    def compile(self, draft: Path, suffix: str, builder: Builder) -> Go:
        """As :meth:`Fork.compile`. Patches are applied to copies of the modules."""
        go = Go.find()
        names = [name for patch in self.patches for name in patching.touched(patch)]
        builder.say(f"patching kubelet {self.version}")
        source = draft / "source"
        _copy(go, f"{KUBERNETES}@v{self.version}", source)
        theirs = (source / "go.mod").read_text()
        for module in staged_modules(theirs):
            if any(name.startswith(f"{STAGING}{module}/") for name in names):
                released = f"{module}@{staged_version(self.version)}"
                _copy(go, released, source / STAGING / module)
        for patch in self.patches:
            patching.apply(patch, source)
        theirs = (source / "go.mod").read_text()
        plan = recipe(self.version, theirs, source)
        plan = Recipe(plan.version, plan.go_mod, plan.sources, flags(self.version, suffix=suffix))
        return compile_module(plan, draft, f"{self.version}{suffix}", builder)


def _copy(go: Go, module: str, folder: Path) -> None:
    """Copy a module's source, so that it can be changed."""
    source = go.download(module, "Dir")
    shutil.copytree(source, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for place, _, _ in os.walk(folder):
        Path(place).chmod(0o755)  # folders of Go's module cache are read-only
