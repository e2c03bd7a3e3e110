"""``lab up`` from beginning to end, on a QEMU that is a shell script: what is left when it works,
fails, is called off, is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.kubelets.releases import Minor
from hil.lab import accelerators, boot, guest, lab, nodes, process, snapshots
from hil.lab import image as images
from hil.lab import kubelet as kubelets
from hil.lab.accelerators import ways
from hil.lab.errors import LabError, LabUsageError
from hil.lab.image import Image
from hil.lab.kubelet import Kubelet
from hil.lab.lab import Wish
from hil.lab.nodes import State
from hil.safety import NodeBusy
from hil.session import booting
from hil.session.booting import boot_as_before, booter
from hil.shell import Done
from hil.transport import nodes as read_inventory
from hil.transport.local import LocalShell
from tests.support import lacking

#: Says what a guest says. What it does is its node's: ``qemu.NAME`` beside it, else it is well.
QEMU = """\
#!/bin/sh
if [ "$1" = --version ]; then echo QEMU emulator version 7; exit; fi
echo "$@" >arguments
. "$0.does"
"""
WELL = """\
for stage in kernel disk ssh workload; do echo "pinproof-lab: $stage" >>console.log; done
exec sleep 600
"""
HANGS = "echo pinproof-lab: kernel >>console.log; exec sleep 600"
#: The image is in already, and nobody says so again.
AGAIN = "for s in kernel disk ssh; do echo pinproof-lab: $s >>console.log; done; exec sleep 600"
QEMU_IMG = """\
#!/bin/sh
for last; do :; done
echo overlay >"$last"
"""


Does = Callable[[str], object]


@pytest.fixture
def does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Does:
    """The programs, and what QEMU shall do."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("qemu-system-x86_64", QEMU), ("qemu-img", QEMU_IMG)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    script = programs / "qemu-system-x86_64.does"
    script.write_text(WELL)

    return script.write_text


@pytest.fixture
def image(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    folder = cache / "pinproof/lab/images/one"
    (folder / "modules").mkdir(parents=True)
    for name in ("root.raw", "vmlinuz", "busybox", "modules/virtio.ko"):
        (folder / name).write_bytes(b"x")
    made = Image(folder, "d" * 64, "6.1.0", "1.6", "252", ("virtio.ko",), cgroup_v1=False)
    facts = {name: getattr(made, name) for name in made.__slots__ if name != "folder"}
    (folder / "image.json").write_text(json.dumps(facts))
    monkeypatch.setattr(images, "ready_image", lambda *_, **__: made)
    return made


def _kubelet(path: Path) -> Kubelet:
    return Kubelet(path, "v1.36.4", Minor(1, 36), "0" * 64)


@pytest.fixture
def wish(does: Does, image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Wish:
    """For one node, whose guest answers as if it were well."""
    lacking.program("ssh-keygen")
    (tmp_path / "kubelet").write_bytes(b"a kubelet")
    monkeypatch.setattr(kubelets, "kubelet", _kubelet)
    monkeypatch.setattr(guest, "connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(guest, "refusal", lambda *_: "")
    monkeypatch.setattr(guest, "difference", lambda *_: "")
    return Wish(
        specs=["1s-1n-4c-smt1"], kubelet=tmp_path / "kubelet", fresh=True, accel="tcg", deadline=60
    )


def _running() -> list[str]:
    return [node.name for node in nodes.all_nodes() if process.alive(node.folder)]


def test_a_node_is_up_and_its_inventory_names_it(wish: Wish) -> None:
    heard: list[tuple[str, str]] = []
    path, (node,) = lab.up(wish, lambda who, stage: heard.append((who, stage)))
    assert nodes.named("node1").state is State.UP
    (found,) = read_inventory(str(path))
    assert found.url == node.door.url
    assert ("node1", "the kernel runs") in heard
    assert heard[-1] == ("node1", "ready")
    known = (node.folder / "known_hosts").read_text()
    assert known.startswith(f"[127.0.0.1]:{node.door.port} ssh-ed25519 ")
    assert f"hostfwd=tcp:127.0.0.1:{node.door.port}-:22" in (node.folder / "arguments").read_text()


def test_several_nodes_share_an_inventory(wish: Wish) -> None:
    path, made = lab.up(replace(wish, specs=["1s-1n-4c-smt1", "1s-1n-2c-smt1"]))
    assert [node.name for node in made] == ["node1", "node2"]
    assert [one.lab for one in read_inventory(str(path))] == ["1s-1n-4c-smt1", "1s-1n-2c-smt1"]
    lab.down(["node2"])
    assert [one.name for one in read_inventory(str(path))] == ["node1"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo pinproof-lab: kernel >>console.log; echo no memory >&2", "QEMU ended: no memory"),
        (
            "printf 'pinproof-lab: kernel\\npinproof-lab: failed: no \\033[1mdisk\\n' "
            ">>console.log; exec sleep 600",
            "cannot boot: no .x1b.1mdisk",
        ),
        (
            "echo '[ 1.2] Kernel panic - not syncing: VFS' >>console.log; exec sleep 600",
            "Kernel panic",
        ),
        ("echo broken option >&2; exit 1", "broken option"),
        (HANGS, "in time"),
    ],
    ids=["ends", "no disk", "panic", "refuses", "hangs"],
)
def test_of_a_node_that_does_not_boot_nothing_is_left(
    wish: Wish, does: Does, script: str, said: str
) -> None:
    does(script)
    with pytest.raises(LabError, match=said) as caught:
        lab.up(replace(wish, deadline=1.5 if "in time" in said else 60))
    assert str(caught.value).isprintable()
    assert nodes.all_nodes() == []


@pytest.mark.parametrize(
    ("look", "found", "said"),
    [
        ("refusal", "unknown field", "node1: its kubelet does not stay up: unknown field"),
        ("difference", "the kernel shows another machine", "the kernel shows another machine"),
    ],
    ids=["its kubelet does not stay", "it is another machine"],
)
def test_a_node_that_is_not_as_it_was_asked_for_is_an_error(
    wish: Wish, monkeypatch: pytest.MonkeyPatch, look: str, found: str, said: str
) -> None:
    monkeypatch.setattr(guest, look, lambda *_: found)
    with pytest.raises(LabError, match=said):
        lab.up(wish)
    assert nodes.all_nodes() == []


def test_one_that_fails_takes_the_others_along(wish: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of one call, or none."""

    def difference(door: guest.Door, _: str) -> str:
        return "odd" if door.name == "node2" else ""

    monkeypatch.setattr(guest, "difference", difference)
    with pytest.raises(LabError, match="node2: odd"):
        lab.up(replace(wish, specs=["1s-1n-4c-smt1"] * 3))
    assert nodes.all_nodes() == []


def test_a_port_that_somebody_took_is_another_s(wish: Wish, does: Does) -> None:
    does(f"""\
if [ ! -e ../../again ]; then
  touch ../../again
  echo "Could not set up host forwarding rule 'tcp:127.0.0.1:1-:22'" >&2; exit 1
fi
{WELL}""")
    _, (node,) = lab.up(wish)
    assert node.state is State.UP


def test_ctrl_c_leaves_nothing(wish: Wish, does: Does) -> None:
    does(HANGS)

    def say(who: str, stage: str) -> None:
        if (who, stage) == ("node2", "the kernel runs"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        lab.up(replace(wish, specs=["1s-1n-4c-smt1"] * 2), say)
    assert nodes.all_nodes() == []


def test_what_a_killed_run_left_is_seen_and_removed(wish: Wish, does: Does) -> None:
    """SIGKILL in the middle of a boot: QEMU goes on, and is found."""
    does(HANGS)
    script = (
        "import os, signal, sys; from pathlib import Path; from hil.lab import image as images, "
        "lab, kubelet as kubelets; images.ready_image = lambda *_, **__: images.kept('one'); "
        "kubelets.kubelet = lambda path: kubelets.Kubelet(path, 'v1.36.4', "
        "kubelets.Minor(1, 36), '0' * 64); "
        "lab.up(lab.Wish(specs=['1s-1n-4c-smt1'], kubelet=Path(sys.argv[1]), fresh=True, "
        "accel='tcg'), lambda who, stage: stage == 'the kernel runs' and "
        "os.kill(os.getpid(), signal.SIGKILL))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(wish.kubelet)], check=False)
    assert done.returncode == -signal.SIGKILL
    (node,) = nodes.all_nodes()
    assert node.state is State.LEFT
    assert _running() == ["node1"]
    lab.down(["node1"])
    assert nodes.all_nodes() == []


def test_a_reboot_as_another_machine_is_the_upgrade(
    wish: Wish, does: Does, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same disk, same keys, same address; what the kubelet makes of it is the result."""
    path, (node,) = lab.up(wish)
    before = (node.folder / "known_hosts").read_text()
    (node.folder / "overlay.qcow2").write_text("written by the guest")
    does(AGAIN)
    monkeypatch.setattr(guest, "refusal", lambda *_: 'available CPUs "0-7" do not match')
    done = lab.reboot("node1", spec="1s-1n-8c-smt1", hard=True, deadline=60)
    assert done.refusal == 'available CPUs "0-7" do not match'
    assert "cpus=8,maxcpus=8" in (node.folder / "arguments").read_text()
    assert (node.folder / "overlay.qcow2").read_text() == "written by the guest"
    assert (node.folder / "known_hosts").read_text() == before
    assert [one.lab for one in read_inventory(str(path))] == ["1s-1n-8c-smt1"]
    assert nodes.named("node1").state is State.UP


def test_a_kernel_that_never_says_a_word_is_booted_once_more(
    wish: Wish, does: Does, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same way first: threads that wait for each other seldom do so twice."""
    impatient = tuple(replace(way, patience=1, patience_per_cpu=0) for way in ways("tcg"))
    monkeypatch.setattr(accelerators, "ways", lambda _: impatient)
    does(f"[ -e tried ] || {{ touch tried; exec sleep 600; }}\n{WELL}")
    heard: list[str] = []
    _, (node,) = lab.up(wish, lambda _, stage: heard.append(stage))
    assert [stage for stage in heard if "emulation" in stage] == [
        "booting 4 CPUs (emulation)",
        "booting 4 CPUs (emulation, once more)",
    ]
    assert "thread=multi" in (node.folder / "arguments").read_text()
    assert _running() == ["node1"]
    assert [way.accelerator for way in impatient][-1] == "tcg,thread=single"


def test_a_scenario_that_boots_a_node_waits_for_no_kubelet(
    wish: Wish, does: Does, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops the kubelet next, and one that refuses its state file takes the longest to settle.
    Another machine than before is looked at all the same."""
    path, _ = lab.up(wish)
    does(AGAIN)
    asked: list[str] = []

    def refusal(*_: object) -> str:
        asked.append("kubelet")
        return ""

    def difference(_: object, spec: str) -> str:
        asked.append(spec)
        return ""

    monkeypatch.setattr(guest, "refusal", refusal)
    monkeypatch.setattr(guest, "difference", difference)
    monkeypatch.setattr(guest, "power_off", lambda _: process.end(nodes.named("node1").folder))
    boot_it = booter(read_inventory(str(path))[0], LocalShell())
    assert boot_it is not None
    boot_it("")
    assert asked == []
    boot_it("1s-1n-8c-smt1")
    assert asked == ["1s-1n-8c-smt1"]
    boot_it("1s-1n-4c-smt1")
    assert asked == ["1s-1n-8c-smt1", "1s-1n-4c-smt1"]
    lab.reboot("node1", hard=True, deadline=60)
    assert asked[2:] == ["kubelet", "1s-1n-4c-smt1"]


def test_a_node_remembers_the_machine_that_it_was(
    wish: Wish, does: Does, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed during a CPU upgrade, or while the node is off."""
    path, _ = lab.up(wish)
    does(AGAIN)
    monkeypatch.setattr(guest, "power_off", lambda _: process.end(nodes.named("node1").folder))
    held = iter(["held somebody-1 90\n", "free\n"])
    said = SimpleNamespace(name="node1", run=lambda _: Done(0, next(held).encode(), b""))
    monkeypatch.setattr(booting, "connected", lambda _: nullcontext(said))
    (address,) = read_inventory(str(path))
    assert boot_as_before(address) == ""
    boot_it = booter(address, LocalShell())
    assert boot_it is not None
    boot_it("1s-1n-8c-smt1")
    boot_it("")
    record = nodes.named("node1").record
    assert record is not None
    assert (record.spec, record.original) == ("1s-1n-8c-smt1", "1s-1n-4c-smt1")
    assert read_inventory(str(path)) == [address]
    with pytest.raises(NodeBusy, match="is held by somebody-1 for 90 s more"):
        boot_as_before(address)
    assert boot_as_before(address) == "1s-1n-4c-smt1"
    record = nodes.named("node1").record
    assert record is not None
    assert (record.spec, record.original) == ("1s-1n-4c-smt1", "")
    process.end(nodes.named("node1").folder)
    assert nodes.named("node1").state is State.DOWN
    assert boot_as_before(address, force=True) == "1s-1n-4c-smt1"
    assert nodes.named("node1").state is State.UP
    with nodes.held(nodes.named("node1")), pytest.raises(LabUsageError, match="busy"):
        boot_as_before(address, force=True)
    lab.reboot("node1", spec="1s-1n-8c-smt1", hard=True)
    assert boot_as_before(address, force=True) == ""


def test_a_node_that_is_reset_is_as_new(wish: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"cpuManagerReconcilePeriod": "5s"}
    path, (node,) = lab.up(replace(wish, settings=settings, name="mine"))
    furnished = (node.folder / "payload.tar").read_bytes()
    lab.reboot("mine", spec="1s-1n-8c-smt1", hard=True)
    (node.folder / "overlay.qcow2").write_text("written by a run")
    (node.folder / "payload.tar").unlink()
    key = (node.folder / "id_ed25519").read_text()
    again = lab.reset("mine")
    assert again.state is State.UP
    assert (node.folder / "overlay.qcow2").read_text() == "overlay\n"
    assert len((node.folder / "payload.tar").read_bytes()) == len(furnished)
    assert (node.folder / "id_ed25519").read_text() != key
    (address,) = read_inventory(str(path))
    assert (address.name, address.lab) == ("mine", "1s-1n-4c-smt1")
    assert again.record is not None
    assert address.url.endswith(f":{again.record.port}")

    def gone(_: Path) -> Kubelet:
        raise LabUsageError("there is no such file")

    monkeypatch.setattr(kubelets, "kubelet", gone)
    with pytest.raises(LabUsageError, match="there is no such file"):
        lab.reset("mine")
    assert nodes.named("mine").state is State.UP


def test_a_reboot_that_fails_leaves_the_node_down(wish: Wish, does: Does) -> None:
    """Its disk is not thrown away: another try may do."""
    lab.up(wish)
    does("echo broken option >&2; exit 1")
    with pytest.raises(LabError, match="broken option"):
        lab.reboot("node1", hard=True, deadline=60)
    assert nodes.named("node1").state is State.DOWN
    does(WELL)
    assert lab.reboot("node1", hard=True, deadline=60).refusal == ""


def test_a_busy_node_is_not_rebooted(wish: Wish) -> None:
    _, (node,) = lab.up(wish)
    with nodes.held(node), pytest.raises(LabUsageError, match="node1 is busy"):
        lab.reboot("node1", hard=True)


def test_wrong_usage_makes_nothing(wish: Wish) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"specs": []},
        {"specs": ["nonsense"]},
        {"specs": ["1s-1n-4c-smt1"] * 2, "name": "one"},
        {"accel": "magic"},
        {"cgroup": 1},
        {"inventory": Path("/nonexistent/lab.toml")},
        {"name": "No Name"},
    )
    for changes in wrong:
        with pytest.raises(LabUsageError):
            lab.up(replace(wish, **changes))
    assert nodes.all_nodes() == []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of snapshots that were made; each loads."""
    made: list[str] = []

    def save(folder: Path, _: boot.Watch) -> None:
        (folder / "memory").write_bytes(b"state")
        made.append(folder.name)

    monkeypatch.setattr(snapshots, "_save", save)
    monkeypatch.setattr(snapshots, "_wake", lambda *_: None)
    monkeypatch.setattr(guest, "prepare_to_sleep", lambda _: None)
    return made


def test_a_snapshot_that_does_not_load_is_made_again(
    wish: Wish, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    """Once; a second failure is an error."""

    def wake(*_: object) -> None:
        if len(made) < 2:
            raise snapshots.DoesNotLoad("node1: unknown section")

    monkeypatch.setattr(snapshots, "_wake", wake)
    heard: list[str] = []
    _, (node,) = lab.up(replace(wish, fresh=False), lambda _, stage: heard.append(stage))
    assert made == ["snapshot", "snapshot"]
    assert any("made again: node1: unknown section" in stage for stage in heard)
    assert node.state is State.UP
    assert (node.folder / "payload.tar").stat().st_nlink == 2
    assert [path.name for path in lab.clean()] == []
    lab.down(everything=True)
    assert {path.parent.name for path in lab.clean()} == {"images", "snapshots"}


def test_a_second_node_of_a_kind_boots_nothing(wish: Wish, made: list[str]) -> None:
    quick = replace(wish, fresh=False)
    lab.up(quick)
    heard: list[str] = []
    lab.up(quick, lambda _, stage: heard.append(stage))
    assert heard == ["loading the snapshot", "ready"]
    assert made == ["snapshot"]
