"""A certificate's page in a real browser: on paper its face is one sheet, with everything on it."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest

from conformance.results import Result
from reports.certificate import Statement, html
from reports.certificate.document import Configuration, Firmware, System
from tests.support.browser import Browser
from tests.support.certificates import certificate, result, run

pytestmark = pytest.mark.needs("chromium")


def sheets(statement: Statement, folder: Path) -> list[str]:
    """The text of each page on paper, without blanks: lines break where there is room."""
    page = folder / "certificate.html"
    page.write_text(html(statement), encoding="utf-8")
    texts = Browser(folder).texts(page, folder / "certificate.pdf")
    return [re.sub(r"\s", "", text) for text in texts]


def crowded() -> list[Result]:
    """A run of which much is missing, each for another reason at length."""
    why = "needs --max-risk cpu-offline and a service manager, which this run was not allowed to "
    facts = [{"scenario": f"area/s{at}", "reason": f"{why * 3}{at}"} for at in range(40)]
    return [result("pass"), *(result("skip", unable=True, title="A" * 90, **one) for one in facts)]


def long(**changes: Any) -> dict[str, Any]:
    """Facts of a node that has much of everything."""
    settings = {f"cpuManagerSetting{at}": "value-of-some-length=true, " * 3 for at in range(20)}
    system = System(
        emulated="QEMU",
        os="A distribution with a long name for itself 12.3 (its code name)",
        kernel="6.12.48+deb13-cloud-amd64-with-a-suffix",
        architecture="x86_64",
        command_line="isolcpus=3 " * 30,
        systemd="257",
        cgroup="v2, driver systemd",
        runtime="containerd 2.1.4",
        distribution="kubeadm",
    )
    configuration = Configuration(settings=settings, digest="sha256:" + "cf" * 32)
    return {"configuration": configuration, "system": system, **changes}


def expected(statement: Statement) -> list[str]:
    """What the first page must hold."""
    facts = statement.facts
    machine, firmware, system = facts.machine, facts.firmware, facts.system
    core, suite = facts.profiles[0], facts.suite
    return [
        facts.title, facts.verdict.upper(), facts.words,
        f"{core.ran} of {core.apply}required scenarios run",
        machine.processor, f"{machine.cpus} on {machine.cores} physical cores",
        f"{machine.sockets} sockets, {machine.numa_nodes} NUMA nodes", "without SMT",
        firmware.product, f"{firmware.firmware_version} {firmware.firmware_date}",
        system.os, system.kernel, system.runtime,
        facts.kubelet.version, facts.kubelet.digest,
        *[f"{name}{text[:40]}" for name, text in [*facts.configuration.settings.items()][:3]],
        f"pinproof {suite.pinproof}", suite.catalogue,
        facts.evidence.digest, machine.digest, facts.digest,
        "2026-11-21 16:00:00 UTC", "2026-11-21 16:10:00 UTC", "21 November 2027",
        "Not claimed: performance, security", f"Exit status {facts.exit_status}",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["plain", "crowded"])
def test_the_face_is_one_sheet_with_everything_on_it(kind: str, tmp_path: Path) -> None:
    if kind == "plain":
        statement = certificate(run(result("pass")), tmp_path)
    else:
        statement = certificate(run(*crowded()), tmp_path, **long())
    first, second, *_ = sheets(statement, tmp_path)
    assert [one for one in expected(statement) if re.sub(r"\s", "", one) not in first] == []
    assert second.upper().startswith("ANNEX")
    if kind == "crowded":
        assert "EMULATEDNODE" in first
        assert "36morereasons:seetheannex" in first


def test_a_pre_certificate_says_so_on_its_face(tmp_path: Path) -> None:
    statement = certificate(
        run(result("pass")), tmp_path, pre=True, firmware=Firmware(), system=System()
    )
    first, *_ = sheets(statement, tmp_path)
    assert "PRE-CERTIFICATE,notacertificateofanode" in first


#: How many elements of each frame's page lie beyond its right edge.
BEYOND = """<script>onload = () => {
const beyond = (frame) => [...frame.contentDocument.querySelectorAll(".face *")]
  .filter((one) => one.getBoundingClientRect().right > frame.clientWidth + 1).length;
document.title = [...document.querySelectorAll("iframe")].map(beyond);
}</script>"""


def test_nothing_is_cut_off_on_a_screen(tmp_path: Path) -> None:
    page = escape(html(certificate(run(*crowded()), tmp_path, **long())))
    frames = [f'<iframe width={one} height=900 srcdoc="{page}"></iframe>' for one in (360, 1280)]
    framed = tmp_path / "framed.html"
    framed.write_text(f"<!DOCTYPE html><title>-</title>{''.join(frames)}{BEYOND}")
    assert Browser(tmp_path).title(framed) == "0,0"
