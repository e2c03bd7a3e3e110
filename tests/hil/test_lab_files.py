"""What a lab node is made of: recipe, payload, workload image, initramfs."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tomllib
from collections.abc import Iterator

import pytest

from hil.lab import runtime
from hil.lab.errors import LabUsageError
from hil.lab.initramfs import initramfs
from hil.lab.names import ADDRESS, NODE_NAME
from hil.lab.payload import MARKER, Keys, payload
from hil.lab.recipe import PACKAGES, WORKLOAD_IMAGE, Recipe, tar
from hil.lab.workload import workload

KEYS = Keys("host private\n", "ssh-ed25519 AAAA host\n", "ssh-ed25519 BBBB login\n")


def _open(data: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(data))


def _text(archive: tarfile.TarFile, name: str) -> bytes:
    session = archive.extractfile(name)
    assert session is not None
    return session.read()


@pytest.fixture
def archive() -> Iterator[tarfile.TarFile]:
    made = payload(
        kubelet=b"\x7fELF", unit="[Unit]\n", configuration="{}\n", containerd="C", workload=b"tar",
        keys=KEYS, hostname="node",
    )  # fmt: skip
    with _open(made) as opened:
        yield opened


def test_the_recipe_s_digest_is_of_all_that_is_in_it() -> None:
    one = Recipe(("deb http://mirror/debian bookworm main",))
    assert one.digest == Recipe(one.sources).digest
    assert one.digest != Recipe(("deb http://mirror/debian trixie main",)).digest


def test_an_archive_is_the_same_bytes_every_time() -> None:
    assert Recipe(()).overlay() == Recipe(()).overlay()
    assert tar({"a/b": (b"x", 0o600)}, {"c": "a/b"}) == tar({"a/b": (b"x", 0o600)}, {"c": "a/b"})


@pytest.mark.parametrize("oci", ["runc", "crun"])
@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_containerd_uses_the_kubelet_s_cgroup_driver_and_the_lab_s_own_image(
    oci: str, driver: str
) -> None:
    """No registry is asked for sandboxes."""
    config = tomllib.loads(runtime.configuration(oci, driver))
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == WORKLOAD_IMAGE
    assert cri["containerd"]["default_runtime_name"] == oci
    options = cri["containerd"]["runtimes"][oci]["options"]
    assert options["SystemdCgroup"] is (driver == "systemd")
    assert options["BinaryName"].endswith(f"/{oci}")
    assert oci in PACKAGES


def test_a_node_s_own_services_stay_on_two_cpus(archive: tarfile.TarFile) -> None:
    """Those of systemd's slices; a pod's slice lies beside them."""
    for unit in ("system.slice", "init.scope"):
        assert b"AllowedCPUs=0-1" in _text(archive, f"etc/systemd/system/{unit}.d/pinproof.conf")


def test_an_unknown_oci_runtime_is_refused() -> None:
    with pytest.raises(LabUsageError, match="the OCI runtime is runc or crun, not 'kata'"):
        runtime.known("kata")


def test_the_payload_is_whole_and_private(archive: tarfile.TarFile) -> None:
    """Its last file marks it as whole: a guest that lost its power meanwhile unpacks again."""
    assert _text(archive, runtime.CONFIG) == b"C"
    assert archive.getnames()[-1] == MARKER
    assert archive.getmember("etc/ssh/ssh_host_ed25519_key").mode == 0o600
    assert archive.getmember("root/.ssh").mode == 0o700
    assert archive.getmember("root/.ssh/authorized_keys").mode == 0o600
    assert archive.getmember("usr/local/bin/kubelet").mode == 0o755


def test_the_workload_s_image_is_whole() -> None:
    """The runtime compares the layer with the digest in the configuration."""
    with _open(workload(b"busybox")) as archive:
        (manifest,) = json.loads(_text(archive, "manifest.json"))
        config = json.loads(_text(archive, manifest["Config"]))
        layer = _text(archive, manifest["Layers"][0])
    assert manifest["RepoTags"] == [WORKLOAD_IMAGE]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with _open(layer) as inner:
        assert inner.getmember("bin/sh").linkname == "busybox"
        assert inner.getmember("bin/pause").mode == 0o755


def test_the_first_program_loads_modules_in_order_and_takes_cpus_offline() -> None:
    made = initramfs(b"busybox", {"b.ko": b"1", "a.ko": b"2"}, offline=[3, 5], table=b"MADT")
    assert b"for module in b.ko a.ko;" in made
    assert b"for cpu in 3 5;" in made
    # The kernel looks for tables before anything else, and only in an archive's plain part.
    assert made.index(b"kernel/firmware/acpi") < made.index(b"bin/busybox")
    assert b"@" not in made.replace(b"@OUT", b"")


def test_a_node_knows_its_names_and_asks_nobody(archive: tarfile.TarFile) -> None:
    """The kubelet looks its node up for every pod, and a server that does not answer takes five
    seconds each time."""
    hosts = [line.split() for line in _text(archive, "etc/hosts").decode().splitlines()]
    assert [ADDRESS, NODE_NAME] in hosts
    assert [ADDRESS, "node"] in hosts
    assert _text(archive, "etc/resolv.conf") == b""
    assert _text(archive, "etc/hostname") == b"node\n"
