"""kube-apiservers of released versions, built from the Go module and kept.

Pods come through an API server where static pods are not enough: a resize in place, an ephemeral
container. The programs are kept in ``$XDG_CACHE_HOME/pinproof/apiservers``.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.kubelets.recipe import Recipe, flags, go_mod
from conformance.kubelets.releases import Minor, Version
from conformance.kubelets.workshop import Workshop
from conformance.subject import SubjectSetupError

#: The release of the API server for kubelets of all releases: it may be newer than its kubelets.
VERSION: Final = "1.36.4"
#: The first release whose main function is as below.
_OLDEST: Final = Minor(1, 26)

#: The main function of ``cmd/kube-apiserver/apiserver.go``, and of the other programs (1.36).
_MAIN: Final = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-{program}/app"
)

func main() {{
	os.Exit(cli.Run(app.{command}()))
}}
"""


def recipe(
    version: Version,
    theirs: str,
    replaced: Path | None = None,
    *,
    program: str = "apiserver",
    command: str = "NewAPIServerCommand",
) -> Recipe:
    """The recipe for ``kube-PROGRAM`` of a release with the ``go.mod`` in ``theirs``. ``command``
    is the Go function that makes its command."""
    made = go_mod(program, version, theirs, replaced)
    main = _MAIN.format(program=program, command=command)
    return Recipe(version, made, {"main.go": main}, flags(version))


WORKSHOP: Final = Workshop("apiserver", _OLDEST, recipe)


build, cached = WORKSHOP.build, WORKSHOP.cached


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that an API server consists of."""

    etcd: Path
    apiserver: Path


def find() -> Programs:
    """``etcd`` on PATH, and the kube-apiserver that ``PINPROOF_APISERVER`` names, else the one in
    the cache. Raises :class:`SubjectSetupError`, which says how to get what is missing."""
    etcd = shutil.which("etcd")
    named = os.environ.get("PINPROOF_APISERVER")
    apiserver = Path(named).absolute() if named else WORKSHOP.ready(VERSION)
    missing = []
    if etcd is None:
        missing.append("etcd is not on PATH (Debian: etcd-server)")
    if apiserver is None:
        missing.append(
            "there is no kube-apiserver (pinproof build apiserver 1.36, or PINPROOF_APISERVER)"
        )
    elif not os.access(apiserver, os.X_OK):
        missing.append(f"{apiserver} cannot be executed (PINPROOF_APISERVER)")
    if missing or etcd is None or apiserver is None:
        raise SubjectSetupError("; ".join(missing))
    return Programs(Path(etcd).absolute(), apiserver)
