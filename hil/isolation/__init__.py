"""How well exclusive CPUs are isolated: scheduling noise, measured in pinproof's own containers.

This is a measurement; only a promise beyond the kubelet's own is judged
(:mod:`hil.isolation.judging`). A process that spins in a container is sampled by the kernel's own
counters: how often it had to give its CPU away (``nonvoluntary_ctxt_switches``), how long it waited
for one in all (``/proc/PID/schedstat``, second field), and the longest of these waits. A process
that spins on shared CPUs at the same time is measured for comparison. The tasks of others and the
interrupts that came to the exclusive CPUs are reported as well.
"""

from hil.isolation.measuring import Measurements, measure
from hil.isolation.noise import NotMeasured, read_noise, script

__all__ = ["Measurements", "NotMeasured", "measure", "read_noise", "script"]
