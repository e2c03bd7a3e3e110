"""What a program of a Kubernetes release is built from: a generated module around the released one.
This is also the recipe of the kubelet.

``k8s.io/kubernetes`` requires its staging modules at ``v0.0.0`` and replaces them by folders, which
only its own repository has. The generated module replaces them by the modules that were published
beside the release, ``v0.MINOR.PATCH``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.kubelets import releases
from conformance.kubelets.releases import Version

KUBERNETES: Final = "k8s.io/kubernetes"

_GO_LINE: Final = re.compile(r"^go \S+$", re.M)
_GODEBUG: Final = re.compile(r"^godebug (?:\((?:.|\n)*?^\)|\S+)$", re.M)
_STAGED: Final = re.compile(
    r"^\s*(?:require\s+)?(k8s\.io/[\w.-]+) v0\.0\.0(?:\s*//.*)?$"
    r"|(k8s\.io/[\w.-]+)(?: v\S+)? => \./(?:vendor|staging)/\S+",
    re.M,
)

_MAIN: Final = """\
package main

import (
{imports}
)

func main() {{
{body}
}}
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The sources of a build, by file name, and the flags of ``go build``."""

    version: Version
    go_mod: str
    sources: Mapping[str, str]
    flags: tuple[str, ...]


def staged_modules(go_mod: str) -> list[str]:
    """The staging modules that the ``go.mod`` of a Kubernetes release names, sorted."""
    return sorted({name for pair in _STAGED.findall(go_mod) for name in pair if name})


def staged_version(version: Version) -> str:
    """The version under which the staging modules of a release are published."""
    return f"v0.{version.minor}.{version.patch}"


def recipe(version: Version, theirs: str, replaced: Path | None = None) -> Recipe:
    """The recipe for the kubelet of a release with the ``go.mod`` in ``theirs``."""
    sources = {"main.go": main_go(version)}
    return Recipe(version, go_mod("kubelet", version, theirs, replaced), sources, flags(version))


def go_mod(name: str, version: Version, theirs: str, replaced: Path | None = None) -> str:
    """The ``go.mod`` of the generated module. ``replaced`` is a folder that takes the place of the
    released module and of the staging modules that it has; the others are the released ones."""
    replaces = [] if replaced is None else [f"{KUBERNETES} => {quoted(replaced)}"]
    replaces += [
        f"{module} => {_staged(module, version, replaced)}" for module in staged_modules(theirs)
    ]
    replaces += releases.MOVED_MODULES.get(version.release, ())
    return go_mod_with(name, version, theirs, replaces)


def go_mod_with(name: str, version: Version, theirs: str, replaces: Iterable[str]) -> str:
    """A ``go.mod`` that requires a release, whose own ``go.mod`` is ``theirs``, with these
    replacements, each ``MODULE => …``."""
    lines = [f"module pinproof.invalid/{name}", ""]
    lines += [match[0] for match in (_GO_LINE.search(theirs), _GODEBUG.search(theirs)) if match]
    lines += ["", f"require {KUBERNETES} v{version}", ""]
    lines += [f"replace {one}" for one in replaces]
    return "\n".join(lines) + "\n"


def _staged(module: str, version: Version, replaced: Path | None) -> str:
    folder = None if replaced is None else replaced / "staging" / "src" / module
    if folder is not None and (folder / "go.mod").is_file():
        return quoted(folder)
    return f"{module} {staged_version(version)}"


def quoted(path: Path) -> str:
    """A path as ``go.mod`` has it: a Go string if it has characters such as spaces."""
    text = str(path)
    return text if re.fullmatch(r"[\w./+@-]+", text) else json.dumps(text)


def main_go(version: Version) -> str:
    """The main function, as in ``cmd/kubelet/kubelet.go`` of the release."""
    imports = ['_ "k8s.io/component-base/metrics/prometheus/version"']
    if version.release >= releases.JSON_REGISTERED:
        imports.append('_ "k8s.io/component-base/logs/json/register"')
    imports.append('"k8s.io/kubernetes/cmd/kubelet/app"')
    imports.append('"os"')
    if version.release >= releases.CLI_RUN:
        imports.append('"k8s.io/component-base/cli"')
        argument = ""
        if version.release >= releases.COMMAND_WITH_CONTEXT:
            imports.append('"context"')
            argument = "context.Background()"
        body = [f"os.Exit(cli.Run(app.NewKubeletCommand({argument})))"]
    else:
        imports.append('"k8s.io/component-base/logs"')
        body = [
            "command := app.NewKubeletCommand()",
            "logs.InitLogs()",
            "if err := command.Execute(); err != nil {",
            "\tlogs.FlushLogs()",
            "\tos.Exit(1)",
            "}",
            "logs.FlushLogs()",
        ]
    return _MAIN.format(
        imports="\n".join(f"\t{each}" for each in sorted(imports)),
        body="\n".join(f"\t{line}" for line in body),
    )


def flags(
    version: Version, variables: Mapping[str, str] | None = None, *, suffix: str = ""
) -> tuple[str, ...]:
    """The flags of ``go build``. They link in the version, as the release's own build does, with a
    ``suffix`` for a fork, and ``variables``, by their full names."""
    linked = ["-s", "-w"]
    numbers = {
        "gitVersion": f"v{version}{suffix}",
        "gitMajor": str(version.major),
        "gitMinor": str(version.minor),
    }
    for name, value in numbers.items():
        linked += ["-X", f"k8s.io/component-base/version.{name}={value}"]
    for name, value in (variables or {}).items():
        linked += ["-X", f"'{name}={value}'"]
    if version.release <= releases.UNCHECKED_LINKNAMES_UNTIL:
        linked.append("-checklinkname=0")
    return ("-trimpath", "-buildvcs=false", "-ldflags", " ".join(linked))
