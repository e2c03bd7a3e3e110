"""The kubelet of modules: a fork's own module, or replacements in a product's ``go.mod``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.kubelets import releases
from conformance.kubelets.forks.making import (
    STAGING,
    compile_module,
    contents,
    digest_of_parts,
    release,
    text_of,
)
from conformance.kubelets.golang import Go, GoError
from conformance.kubelets.recipe import (
    KUBERNETES,
    Recipe,
    flags,
    go_mod_with,
    quoted,
    staged_modules,
    staged_version,
)
from conformance.kubelets.releases import Version
from conformance.kubelets.workshop import is_missing
from conformance.progress import Builder
from conformance.subject import SubjectUsageError

_RELEASE_IN: Final = re.compile(r"v(1\.\d+\.\d+)(?:[-+].*)?", re.ASCII)
#: The main package, which the fork may change: in k3s ``NewKubeletCommand`` has other parameters.
_MAIN: Final = f"{KUBERNETES}/cmd/kubelet"
#: Makes ``go mod tidy`` find what that package needs; never compiled.
_WANTED: Final = f"""\
//go:build wanted

package wanted

import _ "{_MAIN}"
"""


@dataclass(frozen=True, slots=True)
class Module:
    """A kubelet of modules: a generated module around ``k8s.io/kubernetes``, with replacements.
    ``folders`` are the replacements that are folders."""

    version: Version
    go_mod: str
    folders: tuple[Path, ...] = ()
    kind: str = "module"

    @classmethod
    def of_fork(cls, module: str, target: str) -> Module:
        """The module of a fork, ``PATH@VERSION``, in place of ``k8s.io/kubernetes``. The staging
        modules are the fork's if it has published them, else those of the release. ``target`` is
        the release that the fork is based on; if empty, the fork's version names it."""
        path, _, its_version = module.partition("@")
        if not re.fullmatch(r"[^@\s]+@v[^@\s]+", module):
            raise SubjectUsageError(f"--module {module}: it is PATH@VERSION")
        match = _RELEASE_IN.fullmatch(its_version)
        version = release(target or (match[1] if match else ""), wanted=f"--module {module}")
        go = Go.find()
        theirs = _go_mod_of(go, module)
        staging = f"{path}/{STAGING}"
        probe = go.describe(f"{staging}k8s.io/api@{its_version}")
        own = path != KUBERNETES and not is_missing(probe)
        # A pre-release of Kubernetes itself has staging modules of its own.
        released = its_version.replace("v1", "v0", 1) if path == KUBERNETES else ""
        replaces = {KUBERNETES: f"{path} {its_version}"} | {
            name: f"{staging}{name} {its_version}"
            if own
            else f"{name} {released or staged_version(version)}"
            for name in staged_modules(theirs)
        }
        return cls._of(version, theirs, replaces)

    @classmethod
    def of_product(cls, path: Path, module: str, target: str) -> Module:
        """``k8s.io/kubernetes`` with the replacements in a product's ``go.mod`` at ``path``. The
        release is ``target``, or else the version of ``module``, or else what the file requires."""
        if not path.is_file():
            raise SubjectUsageError(f"--go-mod {path}: no such file")
        go = Go.find()
        product = _parsed(go, path)
        required = {one["Path"]: one["Version"] for one in product.get("Require") or []}
        name, _, asked = module.partition("@")
        if module and name != KUBERNETES:
            raise SubjectUsageError(f"--module {module}: with --go-mod it is {KUBERNETES}@VERSION")
        match = _RELEASE_IN.fullmatch(asked or required.get(KUBERNETES, ""))
        version = release(target or (match[1] if match else ""), wanted=f"--go-mod {path}")
        replaces: dict[str, str] = {}
        folders: list[Path] = []
        for entry in product.get("Replace") or []:
            sides = (entry["Old"], entry["New"])
            old, new = (f"{side['Path']} {side.get('Version', '')}".rstrip() for side in sides)
            if new.startswith((".", "/")):
                folder = (path.parent / new).absolute()
                if not (folder / "go.mod").is_file():
                    raise SubjectUsageError(f"{path} replaces {old} by {new}, which has no go.mod")
                folders.append(folder)
                new = quoted(folder)
            replaces[old] = new
        if not replaces:
            raise SubjectUsageError(f"{path} has no replace line, so it names no fork")
        theirs = _kubernetes_of(go, replaces, version)
        names = {old.partition(" ")[0] for old in replaces}
        replaces |= {
            name: f"{name} {staged_version(version)}"
            for name in staged_modules(theirs)
            if name not in names
        }
        return cls._of(version, theirs, replaces, folders)

    @classmethod
    def _of(
        cls,
        version: Version,
        theirs: str,
        replaces: Mapping[str, str],
        folders: Iterable[Path] = (),
    ) -> Module:
        lines = [f"{old} => {new}" for old, new in replaces.items()]
        lines += [
            line
            for line in releases.MOVED_MODULES.get(version.release, ())
            if line.partition(" ")[0] not in replaces
        ]
        return cls(version, go_mod_with("kubelet", version, theirs, lines), tuple(folders))

    def digest(self) -> str:
        """A digest of the generated module, and of the folders that are replacements."""
        plan = self._plan("")
        parts = [plan.go_mod, *plan.sources.values(), *plan.flags]
        return digest_of_parts(
            [*map(str.encode, parts), *(c for one in self.folders for c in contents(one))]
        )

    def compile(self, draft: Path, suffix: str, builder: Builder) -> Go:
        plan, label = self._plan(suffix), f"{self.version}{suffix}"
        return compile_module(plan, draft, label, builder, package=_MAIN)

    def _plan(self, suffix: str) -> Recipe:
        sources = {"wanted.go": _WANTED}
        return Recipe(self.version, self.go_mod, sources, flags(self.version, suffix=suffix))


def _parsed(go: Go, path: Path) -> Mapping[str, Any]:
    """A ``go.mod`` as Go reads it; raises :class:`SubjectUsageError`."""
    try:
        answer = json.loads(go.run(["mod", "edit", "-json", str(path.absolute())]))
    except GoError as error:
        last = error.evidence.strip().splitlines()[-1:] or [str(error)]
        raise SubjectUsageError(f"--go-mod {path}: not a go.mod: {last[0][:300]}") from error
    return answer if isinstance(answer, dict) else {}


def _kubernetes_of(go: Go, replaces: Mapping[str, str], version: Version) -> str:
    """The ``go.mod`` of the replacement of ``k8s.io/kubernetes``."""
    places = (KUBERNETES, f"{KUBERNETES} v{version}")
    new = next((replaces[name] for name in places if name in replaces), f"{KUBERNETES} v{version}")
    if new.startswith(("/", '"')):
        return text_of(Path(json.loads(new) if new.startswith('"') else new, "go.mod"))
    return _go_mod_of(go, new.replace(" ", "@"))


def _go_mod_of(go: Go, module: str) -> str:
    """The ``go.mod`` of ``PATH@VERSION``. Raises :class:`SubjectUsageError` if the proxy has no
    such module, and :class:`SubjectSetupError` if it does not answer."""
    found = go.describe(module)
    if is_missing(found):
        raise SubjectUsageError(f"the module proxy has no {module.replace('@', ' ')}")
    return text_of(go.download(module, "GoMod"))
