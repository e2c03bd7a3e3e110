"""kube-apiservers of released versions, built from the Go module and kept: what tests of pods that
come through an API server talk to.

    python -m tests.support.apiservers 1.36.4        # prints the path

They are kept in ``$XDG_CACHE_HOME/pinproof/apiservers``, as kubelets are in ``kubelets``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from conformance.kubelets.recipe import Recipe, flags, go_mod
from conformance.kubelets.releases import Minor, Version
from conformance.kubelets.workshop import Workshop

#: The release that tests take.
VERSION: Final = "1.36.4"
#: The first whose main function is as below.
_OLDEST: Final = Minor(1, 26)

#: As ``cmd/kube-apiserver/apiserver.go`` has it (1.36).
_MAIN: Final = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
"""


def recipe(version: Version, theirs: str, replaced: Path | None = None) -> Recipe:
    """The recipe for the kube-apiserver of a release, whose own ``go.mod`` is ``theirs``."""
    made = go_mod("apiserver", version, theirs, replaced)
    return Recipe(version, made, {"main.go": _MAIN}, flags(version))


WORKSHOP: Final = Workshop("apiserver", _OLDEST, recipe)


if __name__ == "__main__":
    print(WORKSHOP.build(sys.argv[1], progress=lambda stage: print(stage, file=sys.stderr)))
