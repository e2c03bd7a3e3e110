"""Certificates made up in code, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.lines import SCHEMA, Writer
from conformance.results import Footer, Header, MachineRecord, Record, Result, SubjectRecord
from conformance.verdict import Verdict, tally
from reports.certificate import Findings, Promise, Statement, make
from reports.certificate.document import (
    Configuration,
    Firmware,
    Kubelet,
    Machine,
    Noise,
    Suite,
    System,
    Unit,
)
from reports.run import Run, verdict_of

PLACES = {0: (0, 0, 0, 0), 1: (0, 0, 1, 0), 2: (1, 1, 2, 1), 3: (1, 1, 3, 1)}
RECORD = MachineRecord(name="node7", shape="", digest="sha256:" + "5a" * 32, cpus=PLACES)
DIGEST = "sha256:" + "0f" * 32
SUITE = Suite(pinproof="0.1.0", catalogue="sha256:" + "ca" * 32, scenarios=413)
FACTS: dict[str, Any] = {
    "title": "node7",
    "machine": Machine(
        name="node7",
        digest="sha256:" + "5a" * 32,
        hardware_digest="sha256:" + "ab" * 32,
        processor="INTEL(R) XEON(R) PLATINUM 8592+",
        microcode="0x21000230",
        sockets=2,
        numa_nodes=2,
        cores=4,
        cpus=4,
        threads_per_core=1,
        uncore_caches=2,
        memory=512 << 30,
        memory_by_node={0: 256 << 30, 1: 256 << 30},
        places=PLACES,
    ),
    "kubelet": Kubelet(version="v1.36.4", release="1.36", digest=DIGEST),
    "suite": SUITE,
    "unit": Unit(
        salt="5a" * 16,
        digests={"machine id": "scrypt:" + "1d" * 32},
        unread={"product serial": "not readable"},
    ),
    "operator": "Jo Doe <jo@vendor.example>",
    "firmware": Firmware(
        vendor="Dell Inc.",
        product="PowerEdge R760",
        board="Dell Inc. 0VRV9X",
        firmware_vendor="Dell Inc.",
        firmware_version="2.3.5",
        firmware_date="09/10/2024",
        settings={
            "SMT control": "off",
            "intel_pstate": "active",
            "amd_pstate": "not there",
            "governor": "performance",
        },
    ),
    "system": System(
        os="Debian GNU/Linux 12 (bookworm)",
        kernel="6.1.0-30-amd64",
        architecture="x86_64",
        command_line="quiet isolcpus=3",
        systemd="252",
        cgroup="v2, driver systemd",
        runtime="containerd v1.7.2",
        distribution="kubeadm",
    ),
    "configuration": Configuration(
        settings={
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": "full-pcpus-only=true",
            "reservedSystemCPUs": "0",
            "topologyManagerPolicy": "single-numa-node",
            "featureGates": "CPUManagerPolicyAlphaOptions=true",
        },
        digest="sha256:" + "cf" * 32,
    ),
    "allowed": "kubelet-restart",
}


def result(verdict: str = "pass", **changes: Any) -> Result:
    """One scenario's; its id has its verdict and level in it unless ``scenario`` is given."""
    level = changes.get("level", "core")
    facts: dict[str, Any] = {
        "scenario": f"area/{verdict}-{level}-{bool(changes.get('unable'))}".lower(),
        "title": "A fact in the present tense",
        "area": "area",
        "level": level,
        "source": "KEP",
        "source_url": "https://example.org",
        "machine": RECORD,
        "verdict": verdict,
        "witness": "the model of 1.36",
    }
    return Result(**(facts | changes))


def run(*results: Result, status: int = 0, ended: bool = True) -> Run:
    """A run of these results; ``ended``: its stream has a footer."""
    counts = tally(map(verdict_of, results))
    header = Header(
        schema=SCHEMA,
        pinproof="0.1.0",
        subject=SubjectRecord(
            name="node:ssh://root@node7", release="1.36", version="v1.36.4", digest=DIGEST
        ),
        started="2026-11-21T16:00:00+00:00",
        machines=["node7"],
    )
    footer = Footer(
        counts={verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]},
        exit_status=status,
        finished="2026-11-21T16:10:00+00:00",
        seconds=600.0,
    )
    return Run(header, results, footer if ended else None, "" if ended else "cut off")


def promise(one: Result, **changes: Any) -> Promise:
    """The promise that a result is about."""
    facts = {
        "id": one.scenario,
        "title": one.title,
        "level": one.level,
        "source": one.source_url,
    }
    return Promise(**(facts | changes))


def findings(made: Run, **changes: Any) -> Findings:
    """What is known beside a run; its promises are those of its results."""
    facts: dict[str, Any] = {"promises": [promise(one) for one in made.results]}
    return Findings(**(FACTS | facts | changes))


def written(made: Run, path: Path) -> Path:
    """The stream of a run, as a file."""
    records: list[Record] = [made.header, *made.results, *filter(None, [made.footer])]
    writer = Writer()
    lines = [line for record in records for line in writer.lines(record)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def certificate(made: Run, folder: Path, **changes: Any) -> Statement:
    """The certificate of a run whose stream is written to ``folder``."""
    stream = written(made, folder / "result.jsonl")
    return make(made, findings(made, **changes), stream)


NOISE = Noise(name="exclusive", cpus="2-3", gap=20000.0, involuntary=7, seconds=2.0)
