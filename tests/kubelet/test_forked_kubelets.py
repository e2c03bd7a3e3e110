"""Kubelets of source trees, of modules with replacements and of patches, built by a real Go from a
Kubernetes of a few lines."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from conformance.kubelets import builder, forks
from conformance.kubelets.binary import version_of
from conformance.kubelets.forks import Module, Patched, Tree, shop
from conformance.kubelets.golang import Go
from conformance.subject import SubjectSetupError, SubjectUsageError
from differential.next_release import kubelet_of
from reference.releases import Release
from tests.support import lacking

VERSION, STAGED = "v1.30.2", "v0.30.2"
STAGING = "staging/src/k8s.io/component-base"
#: The module k8s.io/kubernetes; what its kubelet says is in one file.
KUBERNETES = {
    "go.mod": (
        "module k8s.io/kubernetes\n\ngo 1.20\n\nrequire k8s.io/component-base v0.0.0\n\n"
        "replace k8s.io/component-base => ./staging/src/k8s.io/component-base\n"
    ),
    "cmd/kubelet/app/server.go": (
        'package app\n\nimport "k8s.io/component-base/cli"\n\n'
        "func NewKubeletCommand() *cli.Command {\n\treturn &cli.Command{Says: policy}\n}\n"
    ),
    "cmd/kubelet/app/policy.go": 'package app\n\nconst policy = "released"\n',
    "cmd/kubelet/kubelet.go": (
        'package main\n\nimport (\n\t"os"\n\n\t"k8s.io/component-base/cli"\n'
        '\t"k8s.io/kubernetes/cmd/kubelet/app"\n)\n\n'
        "func main() {\n\tos.Exit(cli.Run(app.NewKubeletCommand()))\n}\n"
    ),
}
BASE = {
    "go.mod": "module k8s.io/component-base\n\ngo 1.20\n",
    "version/base.go": (
        'package version\n\nvar gitVersion, gitMajor, gitMinor = "unset", "", ""\n\n'
        "func Get() string { return gitVersion }\n"
    ),
    "metrics/prometheus/version/metrics.go": "package version\n",
    "logs/json/register/register.go": "package register\n",
    "cli/run.go": (
        'package cli\n\nimport (\n\t"fmt"\n\t"os"\n\n\t"k8s.io/component-base/version"\n)\n\n'
        "type Command struct{ Says string }\n\nfunc Run(command *Command) int {\n"
        '\tif len(os.Args) > 1 && os.Args[1] == "--version" {\n'
        '\t\tfmt.Println("Kubernetes", version.Get())\n\t\treturn 0\n\t}\n'
        "\tfmt.Println(command.Says, greeting)\n\treturn 0\n}\n"
    ),
    "cli/greeting.go": 'package cli\n\nconst greeting = "hello"\n',
}
PATCH = """\
What it is for.

--- a/cmd/kubelet/app/policy.go
+++ b/cmd/kubelet/app/policy.go
@@ -1,3 +1,3 @@
 package app
\x20
-const policy = "released"
+const policy = "patched"
"""
STAGED_PATCH = """\
--- a/staging/src/k8s.io/component-base/cli/greeting.go
+++ b/staging/src/k8s.io/component-base/cli/greeting.go
@@ -1,3 +1,3 @@
 package cli
\x20
-const greeting = "hello"
+const greeting = "goodbye"
"""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@cache
def _go_cache() -> str:
    """The user's own, so that Go's library is compiled once."""
    return Go.find().run(["env", "GOCACHE"]).strip()


class World:
    """A cache of its own, a module proxy in a folder, and Go."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.proxy = home / "proxy"
        settings = {
            "GOCACHE": _go_cache(),
            "XDG_CACHE_HOME": home / "cache",
            "GOMODCACHE": home / "modules",
            "GOPROXY": self.proxy.as_uri(),
            "GONOSUMDB": "*",
            "GOSUMDB": "off",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        self.publish("k8s.io/kubernetes", VERSION, KUBERNETES)
        self.publish("k8s.io/component-base", STAGED, BASE)

    def publish(self, module: str, version: str, files: Mapping[str, str]) -> None:
        folder = self.proxy / module / "@v"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{version}.info").write_text(f'{{"Version": "{version}"}}')
        (folder / f"{version}.mod").write_text(files["go.mod"])
        with zipfile.ZipFile(folder / f"{version}.zip", "w") as archive:
            for name, text in files.items():
                archive.writestr(f"{module}@{version}/{name}", text)

    def patches(self, **named: str) -> Path:
        files = {f"{name}.patch": text for name, text in named.items()}
        return write(self.home / "patches", files)

    def checkout(self) -> Path:
        """A tree that is looked at, and not built: its vendor folder has nothing but its list."""
        write(self.home / "tree" / STAGING, BASE)
        return write(self.home / "tree", {**KUBERNETES, "vendor/modules.txt": ""})

    def tree(self, *, workspace: bool = False) -> Path:
        """A checkout with a whole vendor folder."""
        tree = self.checkout()
        go = Go.find(GOPROXY="off")
        if workspace:
            uses = "use (\n\t.\n\t./staging/src/k8s.io/component-base\n)\n"
            (tree / "go.work").write_text(f"go 1.20\n\n{uses}")
            go = Go.find(GOPROXY="off", GOWORK=str(tree / "go.work"), GOFLAGS="")
        go.run(["work" if workspace else "mod", "vendor"], folder=tree)
        return tree

    @property
    def kept(self) -> list[str]:
        folder = forks.SHELF.folder
        return sorted(one.name for one in folder.iterdir() if not one.name.endswith(".lock"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    try:
        return World(tmp_path, monkeypatch)
    except SubjectSetupError as error:
        lacking.skip("go", error)


def said(kubelet: Path) -> str:
    return subprocess.run([kubelet], capture_output=True, text=True, check=True).stdout.strip()


# --- what is built ------------------------------------------------------------------------------


def test_patches_are_built_once_over_a_release(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose own sources stay as they are. A release is never found to be a fork, and another patch
    makes another kubelet."""
    folder = world.patches(one=PATCH)
    kubelet = forks.build(Patched.at(folder, "1.30.2"))
    version, text = version_of(kubelet)
    assert said(kubelet) == "patched hello"
    assert str(version) == "1.30.2"
    assert text.startswith("v1.30.2+patched-")
    assert world.kept == [text.removeprefix("v")]
    assert sorted(one.name for one in kubelet.parent.iterdir()) == ["kubelet", "kubelet.json"]
    assert builder.cached() == []
    assert builder.WORKSHOP.ready("1.30.2") is None
    released = builder.build("1.30.2")
    assert said(released) == "released hello"
    assert [one.path for one in builder.cached()] == [released]
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "")  # what is kept needs no Go
        assert forks.build(Patched.at(folder, "1.30.2")) == kubelet
    (folder / "one.patch").write_text(PATCH.replace('"patched"', '"otherwise"'))
    other = forks.build(Patched.at(folder, "1.30.2"))
    assert other != kubelet
    assert said(other) == "otherwise hello"
    assert {one.path for one in forks.cached()} == {kubelet, other}


def test_versions_are_ordered_by_their_numbers() -> None:
    versions = ["1.36.4+patched-1", "1.9.0+patched-2", "1.36.12+patched-3"]
    assert sorted(versions, key=shop.by_numbers) == [versions[1], versions[0], versions[2]]


def test_a_series_is_applied_in_its_order(world: World) -> None:
    """To staging modules too."""
    again = PATCH.replace('"patched"', '"twice"').replace('"released"', '"patched"')
    second = again.replace("/cmd", "/x/cmd")
    folder = world.patches(a=second, m=STAGED_PATCH, z=PATCH, unlisted="no patch")
    (folder / "series").write_text("# in this order\nz.patch\n\na.patch -p2\nm.patch\n")
    assert said(forks.build(Patched.at(folder, "1.30.2"))) == "twice goodbye"


@pytest.mark.parametrize("workspace", [False, True], ids=["vendor", "go.work"])
def test_a_tree_is_built_offline(world: World, workspace: bool) -> None:
    tree = world.tree(workspace=workspace)
    (tree / "cmd/kubelet/app/policy.go").write_text('package app\n\nconst policy = "forked"\n')
    before = sorted(tree.rglob("*"))
    shutil.rmtree(world.proxy)
    kubelet = forks.build(Tree.at(tree, "1.30.2"))
    assert said(kubelet) == "forked hello"
    assert version_of(kubelet)[1].startswith("v1.30.2+tree-")
    assert sorted(tree.rglob("*")) == before, "nothing is left in the tree"


FORK = "example.com/fork/kubernetes"
#: Its main package calls another function than that of the release.
FORKED = {
    **KUBERNETES,
    "cmd/kubelet/app/policy.go": 'package app\n\nconst policy = "forked"\n',
    "cmd/kubelet/app/server.go": KUBERNETES["cmd/kubelet/app/server.go"].replace("()", "(_ int)"),
    "cmd/kubelet/kubelet.go": KUBERNETES["cmd/kubelet/kubelet.go"].replace(
        "Command()", "Command(7)"
    ),
}


@pytest.mark.parametrize(("own", "text"), [(False, "forked hello"), (True, "forked welcome")])
def test_a_fork_that_is_a_module_is_built(world: World, own: bool, text: str) -> None:
    """With its own staging modules where it has them, and else with the released ones."""
    world.publish(FORK, "v1.30.2-own1", FORKED)
    staging = f"{FORK}/staging/src/k8s.io"
    greeting = {**BASE, "cli/greeting.go": 'package cli\n\nconst greeting = "welcome"\n'}
    if own:
        world.publish(f"{staging}/api", "v1.30.2-own1", {"go.mod": f"module {staging}/api\n"})
        world.publish(f"{staging}/component-base", "v1.30.2-own1", greeting)
    kubelet = forks.build(Module.of_fork(f"{FORK}@v1.30.2-own1", ""))
    assert said(kubelet) == text
    assert version_of(kubelet)[1].startswith("v1.30.2+module-")


def test_a_pre_release_is_built_where_there_is_no_release(world: World) -> None:
    """Of Kubernetes itself, with its own staging modules; the newest one that the proxy names."""
    announced = Release.parse("1.38")
    listed = world.proxy / "k8s.io/kubernetes/@v/list"
    listed.write_text(f"{VERSION}\n")
    with pytest.raises(SubjectSetupError, match=r"no k8s.io/kubernetes v1.38.+--kubelet BINARY"):
        kubelet_of(announced)
    server, program = "cmd/kubelet/app/server.go", "cmd/kubelet/kubelet.go"
    with_context = {
        **KUBERNETES,
        server: KUBERNETES[server]
        .replace("NewKubeletCommand()", "NewKubeletCommand(context.Context)")
        .replace("import ", 'import "context"\n\nimport '),
        program: KUBERNETES[program]
        .replace("NewKubeletCommand()", "NewKubeletCommand(context.Background())")
        .replace('"os"', '"context"\n\t"os"'),
    }
    versions = ("1.38.0-alpha.1", "1.38.0-alpha.2")
    for one in versions:
        world.publish("k8s.io/kubernetes", f"v{one}", with_context)
        world.publish("k8s.io/component-base", f"v0{one.removeprefix('1')}", BASE)
    listed.write_text("".join(f"v{one}\n" for one in versions))
    kubelet = Path(kubelet_of(announced).removeprefix("kubelet:"))
    assert said(kubelet) == "released hello"
    assert version_of(kubelet)[1].startswith("v1.38.0+module-")
    newest = f"k8s.io/kubernetes@v{versions[-1]}"
    assert forks.build(Module.of_fork(newest, "")) == kubelet


def test_a_products_go_mod_names_the_fork(world: World) -> None:
    world.publish(FORK, "v1.30.2-own1", FORKED)
    product = write(world.home / "product", {
        "go.mod": (
            "module example.com/product\n\nrequire k8s.io/kubernetes v1.30.2\n\nreplace (\n"
            f"\tk8s.io/kubernetes => {FORK} v1.30.2-own1\n"
            "\tk8s.io/component-base => ./deps/base\n)\n"
        ),
    })  # fmt: skip
    base = write(product / "deps/base", BASE)
    (base / "cli/greeting.go").write_text('package cli\n\nconst greeting = "hi"\n')
    module = Module.of_product(product / "go.mod", "", "")
    kubelet = forks.build(module)
    assert said(kubelet) == "forked hi"
    assert Module.of_product(product / "go.mod", "k8s.io/kubernetes@v1.30.2", "") == module
    (base / "cli/greeting.go").write_text('package cli\n\nconst greeting = "bye"\n')
    assert said(forks.build(module)) == "forked bye", "a folder that changed is another kubelet"


# --- the cache ----------------------------------------------------------------------------------


def test_a_tree_that_changes_while_it_is_built_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree.at(world.tree(), "1.30.2")
    keys = iter(["before", "before", "after"])
    monkeypatch.setattr(shop, "_key", lambda fork: next(keys))
    with pytest.raises(SubjectSetupError, match="the source changed while"):
        forks.build(tree)
    assert world.kept == []


# --- what cannot be built -----------------------------------------------------------------------


def test_a_patch_that_does_not_apply_is_named_with_its_file(world: World) -> None:
    folder = world.patches(a=PATCH, b=PATCH)
    with pytest.raises(SubjectUsageError) as caught:
        forks.build(Patched.at(folder, "1.30.2"))
    assert str(caught.value) == (
        f"{folder / 'b.patch'} does not apply: cmd/kubelet/app/policy.go:1"
    )
    assert world.kept == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PATCH.replace("policy.go", "nowhere.go"), "nowhere.go: No such file or directory"),
        ("--- /dev/null\n+++ b/../../outside.go\n@@ -0,0 +1 @@\n+package x\n", "invalid path"),
        ("", "[Nn]o valid patches|unrecognized input"),
        ("no patch\n", "[Nn]o valid patches|unrecognized input"),
        (PATCH[:-20], "corrupt patch"),
    ],
    ids=["no such file", "outside", "empty", "no patch", "cut off"],
)
def test_a_patch_that_is_none_is_refused(world: World, text: str, why: str) -> None:
    with pytest.raises(SubjectUsageError, match=rf"a\.patch does not apply: .*({why})"):
        forks.build(Patched.at(world.patches(a=text), "1.30.2"))
    assert world.kept == []


#: By what a checkout says itself.
OF_NEXT = {f"{STAGING}/version/base.go": 'const DefaultKubeBinaryVersion = "1.31"\n'}


def _series(world: World, text: str) -> object:
    folder = world.patches(one=PATCH)
    (folder / "series").write_text(text)
    return Patched.at(folder, "1.30.2")


def _product(world: World, text: str, module: str = "", target: str = "") -> object:
    path = write(world.home / "product", {"go.mod": f"module example.com/product\n{text}"})
    return Module.of_product(path / "go.mod", module, target)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda world: Tree.at(write(world.home, KUBERNETES), "1.30.2"), "has no vendor folder"),
        (
            lambda world: Tree.at(write(world.checkout(), OF_NEXT), "1.30.2"),
            r"is a checkout of 1\.31, not of 1\.30\.2",
        ),
        (lambda world: Tree.at(world.home, "1.30.2"), "is not a checkout of k8s.io/kubernetes"),
        (lambda world: Tree.at(world.home / "none", "1.30.2"), "is not a checkout"),
        (lambda world: Tree.at(world.checkout(), ""), "--tree: RELEASE is missing"),
        (lambda world: Tree.at(world.checkout(), "newest"), "'newest' is not a release"),
        (lambda world: Tree.at(world.checkout(), "1.30"), "of 1.30, name the patch release"),
        (lambda world: Tree.at(world.checkout(), "1.16.2"), "1.17 is the oldest"),
        (lambda world: Patched.at(world.home / "none", "1.30.2"), "none: no such folder"),
        (lambda world: Patched.at(world.home, "1.30.2"), "no .*patch, and no file `series`"),
        (lambda world: _series(world, "two.patch\n"), r"two\.patch: No such file"),
        (lambda world: _series(world, "one.patch -R\n"), "'one.patch -R': it is `NAME`"),
        (lambda world: Module.of_fork(FORK, ""), "it is PATH@VERSION"),
        (lambda world: Module.of_fork(f"{FORK}@v1.30.2", ""), "the module proxy has no"),
        (lambda world: Module.of_fork(f"{FORK}@v0.0.0-1", ""), "RELEASE is missing"),
        (lambda world: Module.of_product(world.home / "go.mod", "", ""), "no such file"),
        (lambda world: _product(world, "what is this\n"), "not a go.mod: .*unknown directive"),
        (lambda world: _product(world, ""), "RELEASE is missing"),
        (lambda world: _product(world, "", target="1.30.2"), "has no replace line"),
        (lambda world: _product(world, "", FORK, "1.30.2"), "with --go-mod it is k8s"),
        (
            lambda world: _product(world, "replace k8s.io/kubernetes => ./no\n", target="1.30.2"),
            r"replaces k8s.io/kubernetes by ./no, which has no go.mod",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_one_line(
    world: World, make: Callable[[World], object], why: str
) -> None:
    with pytest.raises(SubjectUsageError, match=why) as caught:
        make(world)
    assert "\n" not in str(caught.value)


def test_without_git_no_patch_is_applied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    only = world.home / "only-go"
    only.mkdir()
    (only / "go").symlink_to(str(shutil.which("go")))
    monkeypatch.setenv("PATH", str(only))
    with pytest.raises(SubjectSetupError, match="patches are applied with git"):
        forks.build(Patched.at(world.patches(one=PATCH), "1.30.2"))
    assert world.kept == []


def test_a_module_that_is_not_there_whole_is_one_line(world: World) -> None:
    """The proxy knows the version, and has no ``go.mod`` of it."""
    world.publish(FORK, "v1.30.2-own1", FORKED)
    (world.proxy / FORK / "@v" / "v1.30.2-own1.mod").unlink()
    with pytest.raises(
        (SubjectSetupError, SubjectUsageError), match=r"own1.* cannot be downloaded|has no"
    ):
        Module.of_fork(f"{FORK}@v1.30.2-own1", "")
