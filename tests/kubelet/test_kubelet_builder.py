"""The builder, with a stand-in for ``go`` that knows some modules and compiles nothing."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conformance.kubelets import build, builder, cached, golang, recipe
from conformance.kubelets.releases import Version
from conformance.progress import Stage, now_and_then, of_another
from conformance.subject import SubjectSetupError, SubjectUsageError
from tests.support.started import started
from tests.support.until import content, until

#: A release's go.mod, in the forms that the releases have had.
GO_MOD = """\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	k8s.io/api v0.0.0
	k8s.io/kube-openapi v0.0.0-20260317180543-43fb72c5454a
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubelet v0.0.0 // indirect
)

replace (
	k8s.io/cri-api => ./staging/src/k8s.io/cri-api
	k8s.io/old => ./vendor/k8s.io/old
)
"""

FAKE_GO = """
import json, os, sys
home, words = os.environ["FAKE_GO"], sys.argv[1:]
known = json.load(open(home + "/known.json"))
with open(home + "/log", "a") as log:
    print(" ".join(words[:3]), file=log)
if words == ["env", "GOVERSION"]:
    print("go1.99")
elif words[:3] == ["list", "-m", "-versions"]:
    print("k8s.io/kubernetes", *known["listed"])
elif words[:2] == ["list", "-m"]:
    path, version = words[4].split("@")
    if version in known["had"]:
        print(json.dumps({"Path": path, "GoMod": home + "/go.mod"}))
    else:
        said = known.get("says", "not found: " + words[4])
        print(json.dumps({"Path": path, "Version": version, "Error": {"Err": said}}))
elif words == ["mod", "tidy"]:
    text = open("go.mod").read()
    for word in known["missing"]:
        path, version = word.split("@")
        if path + " " + version in text:
            sys.exit("go: x imports y: " + word + ": reading proxy: 404 Not Found")
    if known.get("offline"):
        sys.exit("go: x: dial tcp: i/o timeout")
elif words[:2] == ["list", "-deps"]:
    print(*known.get("packages", []), sep="\\n")
elif words[0] == "build":
    for package in known.get("packages", []) if "-v" in words else []:
        print(package, file=sys.stderr, flush=True)
    if known.get("hang"):
        with open(home + "/building", "w") as building:
            print(os.getpid(), file=building)
        import signal
        signal.pause()
    if known.get("broken"):
        sys.exit("main.go:3: it does not compile")
    with open("kubelet", "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as kubelet:
        print("#!/bin/sh\\necho Kubernetes v9.9.9", file=kubelet)
"""


class World:
    """A home with a cache, a ``go`` on the path, and what that one knows: of kubelet 1.30.2."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        (home / "bin").mkdir()
        self.known: dict[str, object] = {"listed": [], "had": ["v1.30.2"], "missing": []}
        go = home / "bin" / "go"
        go.write_text(f"#!{sys.executable} -IS\n{FAKE_GO}")
        go.chmod(0o755)
        (home / "go.mod").write_text(GO_MOD)
        monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        monkeypatch.setenv("FAKE_GO", str(home))
        self.knows()

    def knows(self, **what: object) -> None:
        self.known |= what
        (self.home / "known.json").write_text(json.dumps(self.known))

    @property
    def log(self) -> list[str]:
        log = self.home / "log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def kept(self) -> list[str]:
        folder = self.home / "cache" / "pinproof" / "kubelets"
        return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_a_release_is_built_once_and_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    path = build("1.30.2", progress=stages.append)
    assert path.read_text().startswith("#!")
    assert os.access(path, os.X_OK)
    assert stages[0] == "looking for kubelet 1.30.2"
    assert stages[2:] == ["compiling kubelet 1.30.2: minutes, the first time"]
    before = world.log
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "")  # what is kept needs no Go
        assert build("1.30.2") == path
    assert world.log == before
    (built,) = cached()
    assert (built.version, built.path, built.go) == ("1.30.2", path, "go1.99")
    assert sorted(each.name for each in path.parent.iterdir()) == ["kubelet", "kubelet.json"]


def test_a_kubelet_that_was_changed_is_built_anew(world: World) -> None:
    """A link to nowhere in its place gives way to it, too."""
    path = build("1.30.2")
    whole = path.read_bytes()
    path.write_text("#!/bin/sh\necho gotcha\n")
    assert build("1.30.2") == path
    assert path.read_bytes() == whole
    shutil.rmtree(path.parent)
    path.parent.symlink_to(world.home / "nowhere")
    assert build("1.30.2") == path
    assert path.is_file()
    assert not path.parent.is_symlink()


def test_a_damaged_note_is_no_kubelet(world: World) -> None:
    path = build("1.30.2")
    for note in ("", "{", '{"version": 1}', "[]", "null"):
        path.with_name("kubelet.json").write_text(note)
        assert cached() == [], note
    assert build("1.30.2") == path
    assert len(cached()) == 1


@pytest.mark.parametrize(
    ("had", "listed", "missing", "asked", "taken"),
    [
        (["2", "9"], ["1.32.2", "1.32.9"], "", "1.32", "1.32.2"),
        (["2", "10"], ["1.30.2", "1.30.10", "1.31.11", "1.30.11-rc.1"], "", "1.30", "1.30.10"),
        (["2", "3"], ["1.30.2"], "", "1.30", "1.30.3"),
        (["12", "15"], [], "k8s.io/api@v0.26.15", "1.26", "1.26.12"),
    ],
    ids=["known to build", "the newest", "not listed", "earlier, not listed"],
)
def test_of_a_minor_a_patch_release_is_taken(
    world: World, had: list[str], listed: list[str], missing: str, asked: str, taken: str
) -> None:
    """The one known to build, else the newest that can be had."""
    versions = [f"v{asked}.{patch}" for patch in had]
    world.knows(had=versions, listed=[f"v{one}" for one in listed], missing=missing.split())
    assert build(asked).parent.name.startswith(f"{taken}-")


@pytest.mark.parametrize(
    ("asked", "version", "instead"),
    [
        ("1.26", "1.26.15", ", nor any of 6 other patch releases"),
        ("1.32.13", "1.32.13", "; 1.32.2 is known to build"),
    ],
)
def test_a_release_with_a_missing_module_is_refused(
    world: World, asked: str, version: str, instead: str
) -> None:
    module = f"v{version}".replace("v1.", "v0.")
    world.knows(had=[f"v{version}"], missing=[f"k8s.io/api@{module}"])
    with pytest.raises(SubjectSetupError) as caught:
        build(asked)
    assert str(caught.value) == (
        f"kubelet {asked} cannot be built: kubelet {version} needs k8s.io/api {module}, which the "
        f"module proxy does not have{instead}"
    )
    assert world.kept == []


def test_a_release_with_a_missing_module_gives_way_to_another(world: World) -> None:
    both = ["v1.30.2", "v1.30.3"]
    world.knows(had=both, listed=both, missing=["k8s.io/cri-api@v0.30.3"])
    stages: list[str] = []
    assert build("1.30", progress=stages.append).parent.name.startswith("1.30.2-")
    lacks = "kubelet 1.30.3 needs k8s.io/cri-api v0.30.3, which the module proxy does not have"
    assert lacks in stages


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("1.30.77", r"has no k8s.io/kubernetes v1\.30\.77"),
        ("1.99", r"has no k8s.io/kubernetes v1\.99\.\d+"),
        ("1.16.3", r"1\.17 is the oldest"),
        *((word, "is not a release") for word in ("latest", "1.30.x", "", "1", "../1.30")),
    ],
)
def test_a_release_that_does_not_exist_is_wrong_usage(world: World, asked: str, said: str) -> None:
    with pytest.raises(SubjectUsageError, match=said):
        build(asked)


def test_without_go_the_way_out_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(golang, "_of_wheel", lambda: None)
    with pytest.raises(SubjectSetupError, match="needs Go, and there is none"):
        build("1.30.2")


NO_HOST = "Get: dial tcp: lookup proxy: no such host"


@pytest.mark.parametrize(
    ("knows", "said"),
    [
        ({"had": [], "says": NO_HOST}, f"cannot be downloaded: {NO_HOST}"),
        ({"offline": True}, r"`go mod tidy` failed: .*i/o timeout"),
        ({"broken": True}, r"main\.go:3: it does not compile"),
    ],
    ids=["the network is down", "the network goes down", "it does not compile"],
)
def test_a_build_that_fails_leaves_nothing_and_says_why(
    world: World, knows: dict[str, object], said: str
) -> None:
    """A network that is down is not taken for a missing module."""
    world.knows(**knows)
    with pytest.raises(SubjectSetupError, match=said) as caught:
        build("1.30.2")
    assert str(knows.get("says", "")) in caught.value.evidence
    assert world.kept == []
    world.knows(had=["v1.30.2"], offline=False, broken=False)
    assert build("1.30.2").exists()


#: Run in the background of a shell, the tests (and so their children) may ignore SIGINT.
BUILDER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from conformance.kubelets import build
build("1.30.2")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_is_no_kubelet(world: World, number: int) -> None:
    """A killed builder leaves its draft; the next one clears it away."""
    world.knows(hang=True)
    with started("-c", BUILDER, stderr=subprocess.DEVNULL) as process:
        building = world.home / "building"
        assert until(lambda: content(building))
        go = os.pidfd_open(int(building.read_text()))
        process.send_signal(number)
    assert process.returncode != 0
    assert select.select([go], [], [], 30)[0]
    os.close(go)
    assert cached() == []
    assert number == signal.SIGKILL or world.kept == []
    world.knows(hang=False)
    path = build("1.30.2")
    assert world.kept == [path.parent.name]


def test_builders_of_one_release_wait_for_each_other(world: World) -> None:
    stages: list[str] = []
    paths: list[Path] = []

    def work() -> None:
        paths.append(build("1.30.2", progress=stages.append))

    with builder.WORKSHOP.lock(Version(1, 30, 2), stages.append):
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        waiting = "waiting for another build of kubelet"
        assert until(lambda: sum(said.startswith(waiting) for said in stages) == 2)
    for worker in workers:
        worker.join()
    assert paths == paths[:1] * 2
    assert sum(line.startswith("build") for line in world.log) == 1


PACKAGES = ["internal/abi", "k8s.io/api/core/v1", "golang.org/x/sys/unix"]


def test_who_waits_is_told_who_builds_since_when_and_how_far(world: World) -> None:
    world.knows(packages=PACKAGES, hang=True)
    code = BUILDER.replace('build("1.30.2")', 'build("1.30.2", progress=print)')
    with started("-u", "-c", code, stderr=subprocess.DEVNULL) as other:
        assert other.stdout is not None
        for line in other.stdout:
            if "1 of 3 packages" in line:
                break
        world.knows(hang=False)
        stages: list[str] = []
        waiting = threading.Event()

        def say(stage: str) -> None:
            stages.append(stage)
            waiting.set()

        worker = threading.Thread(target=lambda: build("1.30.2", progress=say))
        worker.start()
        assert waiting.wait(60)
        other.kill()  # what a dead builder leaves blocks nobody
        worker.join(60)
        assert not worker.is_alive()
    stage = stages[0]
    assert isinstance(stage, Stage)
    assert (stage.done, stage.total) == (1, 3)
    said = rf"waiting for another build of kubelet 1.30.2 \(process {other.pid}, since [\d:]{{8}}\)"
    assert re.fullmatch(said + ": compiling kubelet 1.30.2: 1 of 3 packages", stage)
    assert "looking for kubelet 1.30.2" in stages, "it builds by itself then"
    assert len(cached()) == 1


def test_what_a_dead_builder_left_is_nobodys_progress(world: World) -> None:
    folder = builder.WORKSHOP.cache()
    folder.mkdir(parents=True)
    (folder / ".1.30.2.lock").touch()
    (folder / ".1.30.2.progress").write_text('{"pid": 1, "since": 0, "stage": "compiling"}')
    stages: list[str] = []
    build("1.30.2", progress=stages.append)
    assert not [said for said in stages if "waiting" in said]
    assert not (folder / ".1.30.2.progress").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"pid": "x"}', '{"pid": 1, "since": "x"}'])
def test_a_damaged_progress_says_less(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress").write_text(text)
    said = of_another(tmp_path / "progress", "kubelet 1.30.2")
    assert said == "waiting for another build of kubelet 1.30.2"


def test_lines_come_now_and_then() -> None:
    stages: list[str] = []
    say = now_and_then(stages.append, seconds=3600)
    for done in range(1, 500):
        say(Stage("compiling", done, 500))
    say("kept")
    say(Stage("waiting", 7, 500))
    assert stages == ["compiling: 1 of 500 packages", "kept", "waiting: 7 of 500 packages"]


def test_the_users_build_settings_do_not_reach_go(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOFLAGS", "GOOS", "GOEXPERIMENT"):
        monkeypatch.setenv(name, "nonsense")
    monkeypatch.setenv("GOPROXY", "mine")
    monkeypatch.setenv("GOMODCACHE", "/mine")
    given = golang.environment()
    assert given["GOFLAGS"] == "-mod=mod"
    assert not {"GOOS", "GOEXPERIMENT"} & given.keys()
    assert (given["GOPROXY"], given["GOMODCACHE"]) == ("mine", "/mine")


def test_a_recipe_replaces_staging_modules_by_published_ones() -> None:
    modules = ["k8s.io/api", "k8s.io/cri-api", "k8s.io/kubelet", "k8s.io/old"]
    assert recipe.staged_modules(GO_MOD) == modules
    made = recipe.recipe(Version(1, 36, 4), GO_MOD)
    assert "go 1.26.0\ngodebug default=go1.26\n" in made.go_mod
    assert "require k8s.io/kubernetes v1.36.4\n" in made.go_mod
    assert "replace k8s.io/cri-api => k8s.io/cri-api v0.36.4\n" in made.go_mod
    assert "kube-openapi" not in made.go_mod
    theirs = "module x\ngo 1.24\ngodebug (\n\tdefault=go1.24\n\twinsymlink=0\n)\n"
    made = recipe.recipe(Version(1, 34, 0), theirs)
    assert "godebug (\n\tdefault=go1.24\n\twinsymlink=0\n)\n" in made.go_mod, "kept whole"


@pytest.mark.parametrize(
    ("version", "wanted", "unwanted"),
    [
        (Version(1, 36, 4), ["cli.Run(app.NewKubeletCommand(context.Background()))"], []),
        (Version(1, 34, 0), ["cli.Run(app.NewKubeletCommand(context.Background()))"], []),
        (Version(1, 33, 0), ["cli.Run(app.NewKubeletCommand())"], ['"context"']),
        (Version(1, 23, 0), ["cli.Run(app.NewKubeletCommand())"], ['"context"']),
        (Version(1, 22, 17), ["logs.InitLogs()", "command.Execute()"], ["cli", "json/register"]),
    ],
)
def test_the_main_package_suits_the_release(
    version: Version, wanted: list[str], unwanted: list[str]
) -> None:
    text = recipe.recipe(version, "").sources["main.go"]
    assert all(each in text for each in wanted)
    assert not any(each in text for each in unwanted)


def test_old_releases_get_what_they_need() -> None:
    old = recipe.recipe(Version(1, 17, 17), "")
    assert "replace vbom.ml/util => github.com/fvbommel/util" in old.go_mod
    assert "-checklinkname=0" in old.flags[-1]
    assert "-checklinkname=0" not in recipe.recipe(Version(1, 22, 17), "").flags[-1]
