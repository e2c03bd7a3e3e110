"""What drivers are built from, also around a checkout of a fork, and what cannot be built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from conformance.kubelets.golang import Go
from conformance.kubelets.releases import Version
from conformance.subject import SubjectSetupError, SubjectUsageError
from conformance.subjects.exec import drivers

GO_MOD = """\
module k8s.io/kubernetes

go 1.26.0

require (
	k8s.io/api v0.0.0
	k8s.io/cri-api v0.0.0
)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of Kubernetes as far as a build looks at it, with one staging module."""
    folder = tmp_path / "my fork"
    staged = folder / "staging/src/k8s.io/api"
    staged.mkdir(parents=True)
    (folder / "go.mod").write_text(GO_MOD)
    (staged / "go.mod").write_text("module k8s.io/api\n")
    return folder


def test_a_checkout_takes_the_place_of_the_released_module(checkout: Path) -> None:
    made = drivers.recipe(Version(1, 36, 4), GO_MOD, checkout)
    assert f'replace k8s.io/kubernetes => "{checkout}"' in made.go_mod
    assert f'replace k8s.io/api => "{checkout}/staging/src/k8s.io/api"' in made.go_mod
    assert "replace k8s.io/cri-api => k8s.io/cri-api v0.36.4" in made.go_mod
    assert f"'main.replaced={checkout}'" in made.flags[-1]


def test_a_release_is_built_from_the_module_alone() -> None:
    made = drivers.recipe(Version(1, 36, 4), GO_MOD)
    assert "require k8s.io/kubernetes v1.36.4\n" in made.go_mod
    assert "replace k8s.io/kubernetes =>" not in made.go_mod
    assert "main.replaced" not in made.flags[-1]


@pytest.mark.parametrize(
    ("minor", "taken"),
    [
        (22, {"api": 22, "cpumanager": 22, "cpusets": 22, "runtime": 22, "topology": 22}),
        (25, {"api": 22, "cpumanager": 22, "cpusets": 22, "runtime": 22, "topology": 22}),
        (26, {"api": 22, "cpumanager": 22, "cpusets": 22, "runtime": 26, "topology": 26}),
        (28, {"api": 22, "cpumanager": 22, "cpusets": 28, "runtime": 26, "topology": 26}),
        (35, {"api": 22, "cpumanager": 22, "cpusets": 28, "runtime": 26, "topology": 26}),
        (36, {"api": 36, "cpumanager": 36, "cpusets": 28, "runtime": 26, "topology": 26}),
        (37, {"api": 37, "cpumanager": 36, "cpusets": 28, "runtime": 26, "topology": 37}),
        (40, {"api": 37, "cpumanager": 36, "cpusets": 28, "runtime": 26, "topology": 37}),
    ],
)
def test_a_release_is_called_as_the_newest_before_it(minor: int, taken: dict[str, int]) -> None:
    sources = drivers.recipe(Version(1, minor, 0), GO_MOD).sources
    named = [f"{kind}_1_{release}.go" for kind, release in taken.items()]
    assert [name for name in sources if "_1_" in name] == named
    assert {"main.go", "node.go", "take.go", "wire.go"} <= sources.keys()


def test_nothing_older_than_the_oldest_can_be_built() -> None:
    with pytest.raises(SubjectSetupError, match=r"no driver for 1\.21: 1\.22 is the oldest"):
        drivers.recipe(Version(1, 21, 14), GO_MOD)


@pytest.mark.parametrize(
    ("target", "place", "said"),
    [
        ("one", None, "'one' is not a release: 1.36 and 1.36.4 are"),
        ("1.21", None, "1.21: 1.22 is the oldest that can be driven"),
        ("1.36", "empty", "empty is not a checkout of k8s.io/kubernetes: no such go.mod"),
        ("1.36", "none", "none is not a checkout of k8s.io/kubernetes: no such go.mod"),
        ("1.36", "other", "other is not a checkout of k8s.io/kubernetes: no such go.mod"),
        ("1.99", "my fork", "1.99: name the patch release that the checkout is made of"),
    ],
)
def test_what_cannot_be_built_is_wrong_usage(
    target: str, place: str | None, said: str, checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/go.mod").write_text("module example.com/kubernetes\n")
    with pytest.raises(SubjectUsageError) as caught:
        drivers.build(target, replaced=None if place is None else tmp_path / place)
    assert str(caught.value).endswith(said)
    assert checkout.exists()


class NoGo:
    """Notes what is built, and makes a file of it."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.go_mods: list[str] = []

    def version(self) -> str:
        return "go1.26.0"

    def run(self, arguments: Sequence[str], *, folder: Path) -> str:
        self.ran.append(list(arguments))
        return ""

    def build(self, arguments: Sequence[str], *, folder: Path, each: Callable[[str], None]) -> None:
        self.ran.append(["build", *arguments])
        self.go_mods.append((folder / "go.mod").read_text())
        (folder / "driver").write_text(f"{len(self.ran)}")
        each("k8s.io/api/core/v1")


def test_a_checkout_is_built_anew_each_time(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have changed since."""
    go = NoGo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Go, "find", lambda: go)
    stages: list[str] = []
    first = drivers.build("1.36", replaced=checkout, progress=stages.append)
    assert first.read_text() == "3"
    again = drivers.build("1.36.4", replaced=checkout)
    assert (again, again.read_text()) == (first, "6")
    assert [words[0] for words in go.ran] == ["mod", "list", "build"] * 2
    assert f'replace k8s.io/kubernetes => "{checkout}"' in go.go_mods[0]
    assert stages[-1].startswith("compiling driver 1.36.4")
    assert drivers.WORKSHOP.ready("1.36") is None  # it is not the release's own
    assert [one.path for one in drivers.cached()] == [first]
    assert sorted(one.name for one in first.parent.iterdir()) == ["driver", "driver.json"]
