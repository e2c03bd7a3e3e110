"""``/proc/cpuinfo`` of described machines, as each architecture's kernel writes it.

Linux: ``arch/x86/kernel/cpu/proc.c``, ``arch/arm64/kernel/cpuinfo.c``,
``arch/powerpc/kernel/setup-common.c``, ``arch/s390/kernel/processor.c``. The processors are a
made-up one on x86, Neoverse V2, POWER10 and z16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from topologies.flavours import Core, core_id
from topologies.spec import Spec

_KB_L3: Final = 32768
_FLAGS: Final = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ss{ht} syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl xtopology nonstop_tsc "
    "cpuid tsc_known_freq pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 x2apic movbe popcnt aes "
    "xsave avx f16c rdrand lahf_lm abm fsgsbase bmi1 avx2 smep bmi2 erms invpcid rdseed adx smap "
    "clflushopt clwb sha_ni xsaveopt xsavec xgetbv1 arat"
)
_ARM_FEATURES: Final = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma "
    "lrcpc dcpop sha3 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg dcpodp "
    "sve2 sveaes svepmull svebitperm svesha3 flagm2 frint svei8mm svebf16 i8mm bf16 dgh rng bti"
)


def cpuinfo(spec: Spec, cores: Sequence[Core]) -> str:
    """The whole file, CPUs by ascending id."""
    places = {cpu: (core, thread) for core in cores for thread, cpu in enumerate(core.cpus)}
    ordered = [(cpu, *places[cpu]) for cpu in sorted(places)]
    return "".join(_WRITERS[spec.architecture](spec, ordered))


_Placed = Sequence[tuple[int, Core, int]]


def _x86(spec: Spec, cpus: _Placed) -> Iterator[str]:
    """APIC ids give each package and core a power of 2."""
    siblings = Counter(core.package for _, core, _ in cpus)
    cores = Counter(core.package for _, core, thread in cpus if not thread)
    thread_bits = (spec.threads - 1).bit_length()
    package_bits = max(core_id(spec, core) for _, core, _ in cpus).bit_length() + thread_bits
    for cpu, core, thread in cpus:
        own = core_id(spec, core)
        apicid = core.package << package_bits | own << thread_bits | thread
        flags = _FLAGS.format(ht=" ht" if siblings[core.package] > 1 else "")
        yield (
            f"processor\t: {cpu}\n"
            "vendor_id\t: GenuineIntel\n"
            "cpu family\t: 6\n"
            "model\t\t: 143\n"
            "model name\t: Described x86-64 processor\n"
            "stepping\t: 8\n"
            "microcode\t: 0x1\n"
            "cpu MHz\t\t: 2000.000\n"
            f"cache size\t: {_KB_L3} KB\n"
            f"physical id\t: {core.package}\n"
            f"siblings\t: {siblings[core.package]}\n"
            f"core id\t\t: {own}\n"
            f"cpu cores\t: {cores[core.package]}\n"
            f"apicid\t\t: {apicid}\n"
            f"initial apicid\t: {apicid}\n"
            "fpu\t\t: yes\n"
            "fpu_exception\t: yes\n"
            "cpuid level\t: 32\n"
            "wp\t\t: yes\n"
            f"flags\t\t: {flags}\n"
            "bugs\t\t:\n"
            "bogomips\t: 4000.00\n"
            "clflush size\t: 64\n"
            "cache_alignment\t: 64\n"
            "address sizes\t: 46 bits physical, 57 bits virtual\n"
            "power management:\n"
            "\n"
        )


def _for_each_cpu(block: str, end: str = "") -> Callable[[Spec, _Placed], Iterator[str]]:
    """The same for each CPU but for its number, and ``end`` after all of them."""

    def write(_: Spec, cpus: _Placed) -> Iterator[str]:
        yield from (block.format(cpu) for cpu, _core, _thread in cpus)
        yield end

    return write


_arm64: Final = _for_each_cpu(
    "processor\t: {}\n"
    "BogoMIPS\t: 2000.00\n"
    f"Features\t: {_ARM_FEATURES}\n"
    "CPU implementer\t: 0x41\n"
    "CPU architecture: 8\n"
    "CPU variant\t: 0x0\n"
    "CPU part\t: 0xd4f\n"
    "CPU revision\t: 0\n"
    "\n"
)
_ppc64: Final = _for_each_cpu(
    "processor\t: {}\n"
    "cpu\t\t: POWER10 (architected), altivec supported\n"
    "clock\t\t: 2750.000000MHz\n"
    "revision\t: 2.0 (pvr 0080 0200)\n"
    "\n",
    end="timebase\t: 512000000\nplatform\t: pSeries\nmodel\t\t: IBM,9105-42A\n"
    "machine\t\t: CHRP IBM,9105-42A\nMMU\t\t: Radix\n",
)


def _s390x(spec: Spec, cpus: _Placed) -> Iterator[str]:
    siblings = Counter(core.package for _, core, _ in cpus)
    cores = Counter(core.package for _, core, thread in cpus if not thread)
    yield "vendor_id       : IBM/S390\n"
    yield f"# processors    : {len(cpus)}\n"
    yield "bogomips per cpu: 3241.00\n"
    yield f"max thread id   : {spec.threads - 1}\n"
    yield "features\t: esan3 zarch stfle msa ldisp eimm dfp edat etf3eh highgprs vx vxd vxe gs \n"
    for cpu, _core, _thread in cpus:
        yield f"processor {cpu}: version = 00,  identification = 000000,  machine = 3931\n"
    for cpu, core, _thread in cpus:
        yield (
            f"\ncpu number      : {cpu}\n"
            f"physical id     : {core.package}\n"
            f"core id         : {core_id(spec, core)}\n"
            f"book id         : {core.book}\n"
            f"drawer id       : {core.drawer}\n"
            "dedicated       : 0\n"
            f"address         : {cpu}\n"
            f"siblings        : {siblings[core.package]}\n"
            f"cpu cores       : {cores[core.package]}\n"
            "version         : 00\n"
            "identification  : 000000\n"
            "machine         : 3931\n"
        )


_WRITERS: Final[dict[str, Callable[[Spec, _Placed], Iterator[str]]]] = {
    "": _x86,
    "arm64": _arm64,
    "ppc64": _ppc64,
    "s390x": _s390x,
}
