"""What a certificate has of exclusive CPUs beyond the kubelet's promises: how quiet they are.

What belongs here: what was measured (:mod:`hil.isolation`) as a certificate's records.
"""

from __future__ import annotations

import dataclasses

from hil.isolation import Measurements, judging
from reports.certificate import Findings
from reports.certificate.document import Judged, Noise
from reports.text import line


def added(found: Findings, measured: Measurements, most: float) -> Findings:
    """With what was measured. ``most`` is the longest gap that is promised, in microseconds; 0:
    none is."""
    disturbance = measured.disturbance
    wakeups = {"cyclictest": str(measured.wakeups)} if measured.wakeups else {}
    return dataclasses.replace(
        found,
        facts={
            **found.facts,
            "reconcile latency": f"{measured.latency:.2f} s, its period is {measured.period:g} s",
            "tasks of others on exclusive CPUs": judging.tasks_in_words(disturbance),
            "interrupts on exclusive CPUs": judging.interrupts_in_words(disturbance),
            **wakeups,
        },
        noise=[
            Noise(
                name=line(one.name),
                cpus=line(one.cpus),
                gap=one.gap,
                involuntary=one.involuntary,
                seconds=one.seconds,
            )
            for one in measured.noise
        ],
        judged=[
            Judged(what=line(one.what), claim=line(one.claim), seen=line(one.seen), kept=one.kept)
            for one in measured.judged(most)
        ],
    )
