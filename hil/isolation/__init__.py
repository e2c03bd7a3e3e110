"""How well exclusive CPUs are isolated: scheduling noise, measured inside our own containers.

A measurement; only a promise beyond the kubelet's own is judged
(:mod:`hil.isolation.judging`). A spinner in a container is sampled from the kernel's own books: how
often it was made to give its CPU away (``nonvoluntary_ctxt_switches``), how long it waited for one
in all (``/proc/PID/schedstat``, second field), and the longest time between two of its own looks at
the clock. The same on shared CPUs, beside as many other spinners as there are, is what to hold it
against. Beside that, which tasks of others and which interrupts came to those CPUs.
"""

from hil.isolation.measuring import Measurements, measure
from hil.isolation.noise import NotMeasured, read_noise, script

__all__ = ["Measurements", "NotMeasured", "measure", "read_noise", "script"]
