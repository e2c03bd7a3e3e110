"""Runs made up in code: every verdict, every kind of hostile text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from conformance.known import tally
from conformance.results import (
    SCHEMA,
    Difference,
    Failure,
    Footer,
    Header,
    Holding,
    KnownFailure,
    MachineRecord,
    Result,
    SubjectRecord,
)
from conformance.verdict import exit_status
from reports.run import Run
from tests.support.certificates import written

#: One of everything that must not get through.
HOSTILE: Final = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "[bold red]markup[/] [link=file:///etc]x[/link] \x1b[31mred\x1b[0m \x1b]0;owned\x07 \x9b2J"
    " ]]> <!-- --> </pre></style></svg> {{ 7*7 }} {% raw %} \x00\x08\x7f \u202egnp\u2066 &amp; '\""
)


def held(cpus: Mapping[str, str]) -> list[Holding]:
    """Who holds what."""
    return [Holding(owner=owner, cpus=listed) for owner, listed in cpus.items()]


def headed(run: Run, **facts: object) -> Run:
    """The run with other facts in its header."""
    return dataclasses.replace(run, header=msgspec.structs.replace(run.header, **facts))


def with_subject(run: Run, **facts: object) -> Run:
    """The run of a subject of which other facts are known."""
    return headed(run, subject=msgspec.structs.replace(run.header.subject, **facts))


def footer(counts: dict[str, int], status: int, **more: Any) -> Footer:
    """The end of a stream, as its writer may claim it."""
    return Footer(
        counts=counts, exit_status=status, finished="2026-03-01T10:00:41Z", seconds=1, **more
    )


class Fakes:
    """Makes records; every argument has a harmless default."""

    def machine(
        self, name: str = "2s-2n-8c-smt2", *, cpus: int = 16, sockets: int = 2
    ) -> MachineRecord:
        """Threads numbered as Linux does: the second ones after all the first ones."""
        cores = max(cpus // 2, 1)
        places = {}
        for cpu in range(cpus):
            core = cpu % cores
            socket = core * sockets // cores
            places[cpu] = (socket, socket, core, socket)
        return MachineRecord(name=name, shape=name, digest="sha256:" + "5a" * 32, cpus=places)

    def different(self, names: Iterable[str]) -> list[MachineRecord]:
        """Machines that are no column together, however alike their verdicts are."""
        return [
            msgspec.structs.replace(self.machine(name), digest=f"sha256:{name}") for name in names
        ]

    def failure(self, **changes: object) -> Failure:
        facts: dict[str, object] = {
            "rule": "a container with exclusive CPUs gets whole physical cores",
            "differences": [
                Difference(
                    what="exclusive CPUs of web/app",
                    expected="1,9",
                    seen="1-2",
                    missing="9",
                    unexpected="2",
                )
            ],
            "expected_holdings": held(
                {"web/app": "1,9", "reserved": "0", "shared pool": "2-8,10-15"}
            ),
            "seen_holdings": held({"web/app": "1-2", "reserved": "0", "shared pool": "3-15"}),
        }
        return Failure(**(facts | changes))  # type: ignore[arg-type]

    def result(self, verdict: str = "pass", **changes: object) -> Result:
        facts: dict[str, object] = {
            "scenario": "pinning.whole-cores",
            "title": "Two CPUs are the two threads of one physical core",
            "area": "pinning",
            "level": "core",
            "source": "CPU Management Policies, static policy",
            "source_url": "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/",
            "machine": self.machine(),
            "verdict": verdict,
            "seconds": 1.25,
            "steps": ["start the kubelet", "apply Guaranteed pod web (app: 2 CPUs)"],
            "replay": "pinproof run --subject kubelet:1.36 -k pinning.whole-cores",
        }
        if verdict == "fail":
            facts["failure"] = self.failure()
            facts["explanation"] = (
                "pinning.whole-cores on 2s-2n-8c-smt2: the promise is broken\n\n"
                "  promise   Two CPUs are the two threads of one physical core\n"
                "  broken    a container with exclusive CPUs gets whole physical cores\n"
                "    exclusive CPUs of web/app\n"
                "      expected    1,9\n      seen        1-2\n"
                "  replay\n    pinproof run --subject kubelet:1.36 -k pinning.whole-cores"
            )
            facts["evidence"] = "I0101 static policy: Allocate exclusive CPUs"
        if verdict == "unknown":
            facts["reason"] = "the kubelet did not answer within 60 s"
        if verdict == "skip":
            facts |= {"reason": "needs release 1.22 or later", "seconds": 0.0}
            del facts["steps"], facts["replay"]  # as a stream has it
        return Result(**(facts | changes))  # type: ignore[arg-type]

    def run(self, *given: Result, **changes: object) -> Run:
        """A whole run of these results; ``changes`` are made to the :class:`Run`."""
        header = Header(
            schema=SCHEMA,
            pinproof="0.1.0",
            subject=SubjectRecord(
                name="kubelet:1.36",
                release="1.36",
                version="v1.36.3",
                digest="sha256:" + "0f" * 32,
                facts={"go": "go1.26.1"},
            ),
            started="2026-03-01T12:00:00+02:00",
            machines=list(dict.fromkeys(result.machine.name for result in given)),
            environment={"kernel": "6.12.0"},
        )
        run = Run(header, given, None)
        end = Footer(
            counts={verdict.value: count for verdict, count in run.counts.items()},
            exit_status=exit_status(run.counts),
            finished="2026-03-01T12:00:41+02:00",
            seconds=41.24,
        )
        return dataclasses.replace(run, **({"footer": end} | changes))  # type: ignore[arg-type]

    def known(self, run: Run, *entries: KnownFailure) -> Run:
        """The run, had these failures been known before it."""
        again = headed(run, known=list(entries))
        met = tally(map(again.known.standing, run.results))
        return self.ended(again, int(again.known.status(met)))

    def ended(self, run: Run, status: int) -> Run:
        """The run, had it ended with this exit status."""
        assert run.footer is not None
        return dataclasses.replace(
            run, footer=msgspec.structs.replace(run.footer, exit_status=status)
        )

    def entry(self, **changes: str) -> KnownFailure:
        facts = {
            "scenario": "pinning.whole-cores",
            "reason": "our allocator takes odd CPUs first",
            "expires": "2026-06-30",
            "link": "https://example.org/issues/7",
        }
        return KnownFailure(**(facts | changes))

    def one_of_each(self) -> Run:
        """Two machines; all four verdicts; a refusal that was promised."""
        small = self.machine("1s-1n-4c-smt1", cpus=4, sockets=1)
        refused = "start cpu manager error: could not restore state from checkpoint"
        return self.run(
            self.result("fail"),
            self.result("pass", machine=small),
            self.result("unknown", scenario="restart.keeps", area="restart"),
            self.result("skip", scenario="restart.keeps", area="restart", machine=small),
            self.result("pass", scenario="state.refused", area="state", kubelet_errors=[refused]),
        )

    def hostile(self) -> Run:
        """Every text of every record is hostile, the identifiers and links too."""
        return self.filled(HOSTILE)

    def filled(self, bad: str) -> Run:
        """Every text of every record is this one."""
        machine = MachineRecord(name=bad, shape=bad, digest=bad, cpus=self.machine().cpus)
        fields = {
            "scenario": bad, "title": bad, "area": bad, "level": bad, "source": bad,
            "source_url": "javascript:document.title='owned'", "machine": machine, "reason": bad,
            "steps": [bad], "explanation": bad, "replay": bad, "evidence": bad,
            "kubelet_errors": [bad], "worker": bad,
        }  # fmt: skip
        holdings = [Holding(owner=bad, cpus="0-3"), Holding(owner="x", cpus=bad)]
        failure = Failure(
            rule=bad,
            differences=[Difference(what=bad, expected=bad, seen=bad, missing=bad, unexpected=bad)],
            expected_holdings=holdings,
            seen_holdings=holdings,
        )
        run = self.run(
            self.result("fail", **(fields | {"failure": failure})),
            *(self.result(verdict, **fields) for verdict in ("unknown", "skip", "pass", bad)),
        )
        subject = SubjectRecord(name=bad, release=bad, version=bad, digest=bad, facts={bad: bad})
        header = Header(
            schema=SCHEMA, pinproof=bad, subject=subject, started=bad, machines=[bad],
            environment={bad: bad},
        )  # fmt: skip
        return dataclasses.replace(run, header=header)

    def large(self, scenarios: int = 60, machines: int = 20) -> Run:
        """A matrix as big as a report must stay usable with; one failure in fifteen."""
        made = [
            self.machine(f"{2 ** (n % 4)}s-{16 * (n + 1)}c-machine-{n}", cpus=32 * (n % 16 + 1))
            for n in range(machines)
        ]
        verdicts = ["fail", *["pass"] * 9, "skip", *["pass"] * 4]
        return self.run(
            *(
                self.result(
                    verdicts[(s * machines + m) % len(verdicts)],
                    scenario=f"area{s % 6}.scenario-{s:02}",
                    area=f"area{s % 6}",
                    title=f"Promise number {s} is kept on every machine there is",
                    machine=machine,
                )
                for s in range(scenarios)
                for m, machine in enumerate(made)
            )
        )

    def nodes(self, nodes: int = 60, scenarios: int = 40, *, alike: bool = True) -> Run:
        """One run on many nodes of two kinds of machine. Every 20th node breaks a promise; if they
        are not ``alike``, every node breaks others."""
        small, large = self.machine("small"), self.machine("large", cpus=128)
        kinds = [small, msgspec.structs.replace(large, digest="sha256:" + "6b" * 32)]

        def verdict(node: int, scenario: int) -> str:
            if alike:
                broken = node % 20 == 7 and scenario == node % 3
            else:
                broken = scenario % 23 < 9 and bool(node >> scenario % 23 & 1)
            return "fail" if broken else "skip" if scenario % 5 == 4 else "pass"

        machines = [
            msgspec.structs.replace(kinds[node % 2], name=f"node{node:03}") for node in range(nodes)
        ]
        run = self.run(
            *(
                self.result(
                    verdict(node, scenario),
                    scenario=f"area{scenario % 9}/promise-{scenario:03}",
                    area=f"area{scenario % 9}",
                    machine=machine,
                )
                for node, machine in enumerate(machines)
                for scenario in range(scenarios)
            )
        )
        return with_subject(run, name=f"node:{nodes} nodes")

    def write(self, run: Run, path: Path) -> Path:
        """The run as a stream file."""
        return written(run, path)


fakes: Final = Fakes()
