"""The kubelet that a user names for the lab."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conformance.kubelets.configuration import file_text
from conformance.kubelets.releases import Minor
from hil.lab import kubelet as kubelets
from hil.lab.errors import LabUsageError

TRUE = Path(shutil.which("true") or "/bin/true")


def test_a_real_one_says_its_release(kubelet_path: str) -> None:
    found = kubelets.kubelet(kubelet_path)
    assert found.version.startswith(f"v{found.release}.")
    assert len(found.digest) == 64


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0, ": no such file"),
        (b"\x7fELF", 0o644, "not executable: chmod"),
        # It would be asked for its version here, and run elsewhere.
        (b"#!/bin/sh\necho Kubernetes v1.36.4\n", 0o755, "is not a Linux program"),
        (TRUE.read_bytes(), 0o755, "is not a kubelet: asked for --version it"),
    ],
    ids=["nothing", "may not run", "a script", "another program"],
)
def test_what_is_no_kubelet_is_refused_in_one_line(
    tmp_path: Path, content: bytes | None, mode: int, said: str
) -> None:
    """Whatever its name would do to a terminal."""
    place = tmp_path / "kube\x1b[31mlet\n"
    if content is not None:
        place.write_bytes(content)
        place.chmod(mode)
    with pytest.raises(LabUsageError, match=said) as caught:
        kubelets.kubelet(place)
    assert str(caught.value).isprintable()


def test_a_folder_is_no_kubelet(tmp_path: Path) -> None:
    with pytest.raises(LabUsageError, match="is not a file"):
        kubelets.kubelet(tmp_path)


@pytest.mark.parametrize("minor", [17, 20, 22, 24, 26, 27, 30, 31, 36, 37])
def test_a_release_is_told_only_what_it_knows(minor: int) -> None:
    """The endpoint is a field from 1.27 on, a flag before; failCgroupV1 exists since 1.31."""
    release = Minor(1, minor)
    config = kubelets.configuration(release, {})
    assert ("containerRuntimeEndpoint" in config) == (minor >= 27)
    assert ("failCgroupV1" in config) == (minor >= 31)
    unit = kubelets.unit_text(release, "node")
    assert ("--container-runtime-endpoint=unix:" in unit) == (minor < 27)
    assert ("--container-runtime=remote" in unit) == (minor <= 23)


def test_a_node_pins_by_default() -> None:
    config = kubelets.configuration(Minor(1, 36), {})
    assert config["cpuManagerPolicy"] == "static"
    assert config["reservedSystemCPUs"] == "0"
    assert config["cgroupDriver"] == "systemd"


def test_the_user_s_settings_win() -> None:
    """Maps are merged, null takes out, the rest is replaced; an unknown field stays for the
    kubelet to refuse."""
    config = kubelets.configuration(
        Minor(1, 20),
        {
            "reservedSystemCPUs": "0,8",
            "evictionHard": {"nodefs.available": "1%"},
            "resolvConf": None,
            "failCgroupV1": True,
        },
    )
    assert config["reservedSystemCPUs"] == "0,8"
    assert config["evictionHard"] == {"memory.available": "50Mi", "nodefs.available": "1%"}
    assert "resolvConf" not in config
    assert config["failCgroupV1"] is True
    assert json.loads(file_text(config)) == config
