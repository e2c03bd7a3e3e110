"""What a kubelet of a release is built from: a module of our own around the released one.

``k8s.io/kubernetes`` names its staging modules at ``v0.0.0`` and replaces them by folders, which
only its own repository has. The module here replaces them by the modules that were published
beside the release, ``v0.MINOR.PATCH``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from conformance.subjects.kubelet import releases
from conformance.subjects.kubelet.releases import Version

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
    """The sources of a build, and how ``go build`` is called on them."""

    version: Version
    go_mod: str
    main_go: str
    flags: tuple[str, ...]


def staged_modules(go_mod: str) -> list[str]:
    """The staging modules that the ``go.mod`` of a Kubernetes release names, sorted."""
    return sorted({name for pair in _STAGED.findall(go_mod) for name in pair if name})


def staged_version(version: Version) -> str:
    """The version under which the staging modules of a release are published."""
    return f"v0.{version.minor}.{version.patch}"


def recipe(version: Version, go_mod: str) -> Recipe:
    """The recipe for a release, whose own ``go.mod`` is ``go_mod``."""
    return Recipe(version, _go_mod(version, go_mod), _main_go(version), _flags(version))


def _go_mod(version: Version, theirs: str) -> str:
    lines = ["module pinproof.invalid/kubelet", ""]
    lines += [match[0] for match in (_GO_LINE.search(theirs), _GODEBUG.search(theirs)) if match]
    lines += ["", f"require {KUBERNETES} v{version}", ""]
    lines += [
        f"replace {name} => {name} {staged_version(version)}" for name in staged_modules(theirs)
    ]
    lines += [f"replace {moved}" for moved in releases.MOVED_MODULES.get(version.release, ())]
    return "\n".join(lines) + "\n"


def _main_go(version: Version) -> str:
    """As ``cmd/kubelet/kubelet.go`` of the release does it."""
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


def _flags(version: Version) -> tuple[str, ...]:
    """``go build``'s flags; the version is linked in, as the release's own build does it."""
    variables = {
        "gitVersion": f"v{version}",
        "gitMajor": str(version.major),
        "gitMinor": str(version.minor),
    }
    linked = ["-s", "-w"]
    for name, value in variables.items():
        linked += ["-X", f"k8s.io/component-base/version.{name}={value}"]
    if version.release <= releases.UNCHECKED_LINKNAMES_UNTIL:
        linked.append("-checklinkname=0")
    return ("-trimpath", "-buildvcs=false", "-ldflags", " ".join(linked))
