"""Wrong, odd and damaged input in great numbers: the model answers or refuses, never breaks.

Run it as ``python -m differential.fuzz --inputs 1000000 [--seed N]``. It prints how many inputs of
each kind were taken and with what words the others were refused. Any exception that the called
function does not document, and any broken law, is a failure: it is printed with its input and the
command that replays it, and the exit status is 1.

An input is a tuple of literals, so that it can be printed and read back.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import topologies
from reference import Checkpoint, CheckpointError, CPUSet, CPUSetParseError, NotModelled, discover
from reference.cpumanager.policy_options import OPTIONS, StaticOptions
from reference.cpumanager.state.checkpoint import Layout, encode
from reference.cpumanager.state.state_checkpoint import parse_leniently, parse_pods_leniently
from reference.errors import ConfigurationError, DiscoveryError, QuantityError
from reference.golang.json_text import JSONError, parse
from reference.golang.spew import text_checksum
from reference.kubelet.admission import fault_of
from reference.pods.qos import exclusive_cpus, pod_milli_cpus, qos_class
from reference.pods.quantity import milli_value, quantity, reserved_milli, value
from reference.releases import LATEST, OLDEST
from reference.steps import Container, Kind, Pod

Input = tuple[Any, ...]
_RELEASES: Final = [f"1.{minor}" for minor in range(OLDEST, LATEST + 1)]
_INT64: Final = 1 << 63


class BrokenLaw(Exception):
    """An answer that cannot be right."""


def _require(law: bool, text: str) -> None:
    if not law:
        raise BrokenLaw(text)


# -- damage ------------------------------------------------------------------------------------

_ODD: Final = (
    "", " ", "\n", "\0", "-", "--", ",", ",,", "+", ".", "0", "00", "9" * 20, "1e9", "\\", '"', "'",
    "{", "}", "[", "]", ":", "null", "true", "\u00e9", "\u0663", "\ud800", "\udc80", "\u212a",
    "\U0001f600", "0x1", "-1", "m", "Ki", "i", "e", "\u2028", "<>&",
)  # fmt: skip


def _damaged(rng: random.Random, text: str, times: int) -> str:
    """The text with pieces cut out, doubled or replaced, or with its end cut off."""
    for _ in range(times):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((0, 0, 1, 1, 2, 8)))
        damage = rng.randrange(4)
        if damage == 0:
            text = text[:at] + text[end:]
        elif damage == 1:
            text = text[:at] + text[at:end] * 2 + text[end:]
        elif damage == 2:
            text = text[:at]
        else:
            text = text[:at] + rng.choice(_ODD) + text[end:]
    return text


def _digits(rng: random.Random, most: int) -> str:
    return "".join(rng.choices("0123456789", k=rng.randrange(most + 1)))


def _cpu_list(rng: random.Random, largest: int = 80) -> str:
    pieces = []
    for _ in range(rng.randrange(5)):
        low, high = rng.randrange(largest), rng.randrange(largest)
        pieces.append(str(low) if rng.random() < 0.5 else f"{min(low, high)}-{max(low, high)}")
    return ",".join(pieces)


def _maybe_damaged(rng: random.Random, text: str, chance: float = 0.5) -> str:
    return _damaged(rng, text, rng.randrange(1, 4)) if rng.random() < chance else text


# -- CPU lists ---------------------------------------------------------------------------------


def _make_cpu_list(rng: random.Random) -> Input:
    return (_maybe_damaged(rng, _cpu_list(rng)), rng.choice(_RELEASES))


def _try_cpu_list(text: str, release: str) -> None:
    cpus = CPUSet.parse(text, release=release)
    _require(CPUSet.parse(str(cpus), release=release) == cpus, "what is written is not read back")
    if len(cpus) < 1000:
        _require(str(CPUSet(list(cpus))) == str(cpus), "the text hangs on how the set was made")


# -- quantities --------------------------------------------------------------------------------


def _quantity(rng: random.Random) -> str:
    text = rng.choice(("", "", "", "-", "+")) + _digits(rng, rng.choice((2, 4, 25)))
    if rng.random() < 0.4:
        text += "." + _digits(rng, rng.choice((3, 12)))
    suffixes = ("", "", "m", "n", "u", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi",
                "Ei", "e3", "E3", "e-3", "E+2", "e", "i", "K", "e400", "e-400", "e99999",
                "e2147483647", "e-2147483648", "e4294967297")  # fmt: skip
    return text + rng.choice(suffixes)


def _make_quantity(rng: random.Random) -> Input:
    return (_maybe_damaged(rng, _quantity(rng), 0.3), rng.choice(_RELEASES))


def _try_quantity(text: str, release: str) -> None:
    amount = quantity(text)
    for size in (value(amount), milli_value(amount)):
        _require(-_INT64 <= size < _INT64, "more than 64 bits")
    if 0 <= amount < 1_000_000:
        _require(0 <= value(amount) - amount < 1, "not rounded up to a whole number")
        _require(0 <= milli_value(amount) - amount * 1000 < 1, "not rounded up to a thousandth")
        off = reserved_milli(text, release=release) - amount * 1000
        _require(-1 < off <= 1, "a reservation far from its quantity")


# -- policy options ----------------------------------------------------------------------------

_GATES: Final = ("CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions")


def _make_options(rng: random.Random) -> Input:
    names = [_maybe_damaged(rng, one, 0.1) for one in rng.sample([*OPTIONS], rng.randrange(4))]
    values = ("true", "false", "True", "TRUE", "1", "0", "t", "F", "yes", "", "tRUE", "\ud800")
    given = {name: _maybe_damaged(rng, rng.choice(values), 0.05) for name in names}
    gates = {gate: rng.random() < 0.7 for gate in _GATES if rng.random() < 0.7}
    return (given, gates, rng.choice(_RELEASES[22 - OLDEST :]))


def _try_options(given: dict[str, str], gates: dict[str, bool], release: str) -> None:
    options = StaticOptions.parse(given, gates, release=release)
    _require(options.strategy != "", "no strategy")


# -- pods --------------------------------------------------------------------------------------


def _make_pod(rng: random.Random) -> Input:
    kinds = ["init", "sidecar", "app"]
    weights = (1, 1, 3)
    made = []
    for number in range(rng.randrange(5)):
        amounts = []
        for _ in range(4):
            text = _quantity(rng) if rng.random() < 0.1 else rng.choice(("1", "2", "500m", "64Mi"))
            amounts.append(None if rng.random() < 0.2 else _maybe_damaged(rng, text, 0.05))
        if rng.random() < 0.7:
            amounts[1], amounts[3] = amounts[0], amounts[2]
        name = f"c{number}" if rng.random() < 0.9 else rng.choice(("c0", ""))
        made.append((name, *amounts, rng.choices(kinds, weights)[0]))
    if rng.random() < 0.8:
        made.sort(key=lambda one: one[-1] == "app")
    return (tuple(made),)


def _container(name: str, *given: str | None) -> Container:
    *amounts, kind = given
    request, limit, memory_request, memory_limit = amounts
    return Container(name, request, limit, memory_request, memory_limit, Kind(kind))


def _try_pod(parts: Sequence[tuple[Any, ...]]) -> None:
    pod = Pod("p", tuple(_container(*one) for one in parts))
    fault = fault_of(pod)
    if fault:
        raise _Refused(fault)
    quality = qos_class(pod)
    _require(quality in ("Guaranteed", "Burstable", "BestEffort"), f"class {quality}")
    pod_milli_cpus(pod)
    for one in pod.containers:
        whole = exclusive_cpus(pod, one)
        _require(not whole or quality == "Guaranteed", "exclusive CPUs for an unguaranteed pod")


class _Refused(Exception):
    """Stands for a refusal that is an answer, not an exception."""


# -- JSON and state files ----------------------------------------------------------------------


def _json(rng: random.Random, depth: int = 0) -> str:
    kind = rng.randrange(7 if depth < 4 else 5)
    if kind < 2:
        return rng.choice(("null", "true", "false", '""', '"a"', '"0-3"', r'"\u00e9\n"'))
    if kind < 5:
        return rng.choice(("0", "-1", "1.5", "1e9", "18446744073709551615", "-0.0e-1"))
    inner = [_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return "[" + ",".join(inner) + "]"
    return "{" + ",".join(f'"{rng.choice("abc")}":{one}' for one in inner) + "}"


def _make_json(rng: random.Random) -> Input:
    if rng.random() < 0.01:
        return (rng.choice(("[", '{"a":', "[[", '[{"a":')) * rng.randrange(1, 2000),)
    return (_maybe_damaged(rng, _json(rng)),)


_UIDS: Final = ("p", "q", "39b37746-7f5e-4064-b8e1-eebd2bfaa003", "\u00e9", "<x>", "")
_NAMES: Final = ("a", "b", "app", 'd"', "")
_IDS: Final = ("c1", "c2", "c3", "c4")
_KNOWN: Final = {"c1": ("p", "a"), "c2": ("p", "b"), "c3": ("q", "a")}
_STATE_GATES: Final = ("PodLevelResourceManagers", "InPlacePodVerticalScalingExclusiveCPUs")


def _nested(rng: random.Random, leaf: Callable[[], Any]) -> dict[str, Any]:
    uids = rng.sample(_UIDS, rng.choice((0, 0, 1, 2)))
    return {uid: {name: leaf() for name in rng.sample(_NAMES, rng.randrange(3))} for uid in uids}


def _make_state_file(rng: random.Random) -> Input:
    def cpus() -> str:
        return _maybe_damaged(rng, _cpu_list(rng, 12), 0.03)

    layout = rng.choice(list(Layout))
    by_id = layout in (Layout.PLAIN, Layout.V1)
    content = {
        "policyName": rng.choice(("static", "static", "static", "none", "", "other")),
        "defaultCpuSet": cpus(),
        "entries": {one: cpus() for one in rng.sample(_IDS, 2)}
        if by_id and rng.random() < 0.5
        else {} if by_id else _nested(rng, cpus),
        "podEntries": {uid: CPUSet([1, 2]) for uid in rng.sample(_UIDS, rng.randrange(2))},
        "baselines": _nested(rng, lambda: {"baseline": cpus()}),
    }  # fmt: skip
    text = _maybe_damaged(rng, encode(layout, content))
    if layout is Layout.V4 and rng.random() < 0.3:
        text = _with_data(rng, text)
    if rng.random() < 0.2:
        text = re.sub(r'hecksum":[0-9]+', f'hecksum":{rng.choice((0, 1))}', text, count=1)
    gates = {gate: True for gate in _STATE_GATES if rng.random() < 0.4}
    policy = rng.choice(("static", "static", "none"))
    known = _KNOWN if rng.random() < 0.7 else {}
    return (text, policy, rng.choice(_RELEASES), gates, known)


def _with_data(rng: random.Random, text: str) -> str:
    """Damage inside ``data``, with the right checksum of it."""
    found = re.search(r'"data":"((?:[^"\\]|\\.)*)"', text)
    if not found:
        return text
    data = _damaged(rng, found[1].replace('\\"', '"').replace("\\\\", "\\"), 1)
    if any("\ud800" <= char <= "\udfff" for char in data):
        return text
    escaped = data.replace("\\", "\\\\").replace('"', '\\"')
    text = text[: found.start(1)] + escaped + text[found.end(1) :]
    return re.sub(r'"dataChecksum":[0-9]+', f'"dataChecksum":{text_checksum(data)}', text)


def _try_state_file(
    text: str, policy: str, release: str, gates: dict[str, bool], known: dict[str, tuple[str, str]]
) -> None:
    parse_leniently(text)
    parse_pods_leniently(text, release=release)
    read = Checkpoint.loads(
        text, policy=policy, release=release, feature_gates=gates, containers=known
    )
    if release == "1.8":
        return
    written = read.dumps(release=release, feature_gates=gates)
    again = Checkpoint.loads(written, policy=policy, release=release, feature_gates=gates)
    _require(_kept(again) == _kept(read), "what is written is not read back")
    twice = again.dumps(release=release, feature_gates=gates)
    _require(twice == written or not read.baselines or not read.entries, "written otherwise")


def _kept(read: Checkpoint) -> object:
    # If no container has a baseline, the next start takes the entries as baselines.
    return (read.policy_name, read.default_cpuset, read.entries, read.pod_entries)


# -- trees -------------------------------------------------------------------------------------

_SPECS: Final = (
    "1s-1n-2c-smt2", "1s-1n-4c-smt1", "2s-2n-4c-smt1", "1s-2n-2c-smt2", "2s-1n-2c-smt2",
    "1s-1n-4c-smt2-off3", "1s-2n-4c-smt1-mem1",
)  # fmt: skip


@lru_cache
def _tree(spec: str) -> dict[str, str]:
    return dict(sorted(topologies.machine(spec).tree.items()))


def _make_tree(rng: random.Random) -> Input:
    spec = rng.choice(_SPECS)
    changes: list[tuple[str, str | None]] = []
    tree = _tree(spec)
    for _ in range(rng.randrange(5)):
        path = rng.choice([*tree])
        text = tree[path]
        if rng.random() < 0.25:
            changes.append((path, None))
        else:
            changes.append((path, _damaged(rng, text[:200], rng.randrange(1, 3))))
    return (spec, tuple(changes), rng.choice(_RELEASES))


def _try_tree(spec: str, changes: Sequence[tuple[str, str | None]], release: str) -> None:
    tree = dict(_tree(spec))
    for path, text in changes:
        if text is None:
            tree.pop(path, None)
        else:
            tree[path] = text
    topology = discover(tree, release=release).cpu_topology()
    _require(len(topology.cpus) == len(topology.details), "a CPU without a place")


# -- the run -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of input: ``make`` one, ``try_`` it, and which exceptions are its refusals."""

    share: float
    make: Callable[[random.Random], Input]
    try_: Callable[..., object]
    refusals: tuple[type[Exception], ...]


TARGETS: Final = {
    "cpu-list": Target(0.30, _make_cpu_list, _try_cpu_list, (CPUSetParseError,)),
    "quantity": Target(0.25, _make_quantity, _try_quantity, (QuantityError,)),
    "options": Target(0.10, _make_options, _try_options, (ConfigurationError,)),
    "pod": Target(0.10, _make_pod, _try_pod, (_Refused,)),
    "json": Target(0.10, _make_json, parse, (JSONError, NotModelled)),
    "state-file": Target(
        0.13, _make_state_file, _try_state_file, (CheckpointError, NotModelled)
    ),
    "tree": Target(0.02, _make_tree, _try_tree, (DiscoveryError, NotModelled)),
}  # fmt: skip


@dataclass(slots=True)
class Tally:
    """The outcomes of the inputs of one kind; refusals by exception and words."""

    taken: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[Input, str]] = field(default_factory=list)


def run(name: str, inputs: Iterator[Input], tally: Tally) -> None:
    """Try every input of a kind and count."""
    target = TARGETS[name]
    for one in inputs:
        try:
            target.try_(*one)
        except target.refusals as error:
            tally.refused[_words(error)] += 1
        except Exception:
            tally.broken.append((one, traceback.format_exc()))
        else:
            tally.taken += 1


def made(name: str, count: int, seed: int) -> Iterator[Input]:
    """``count`` inputs of a kind, the same for the same seed."""
    rng = random.Random(f"{seed} {name}")
    return (TARGETS[name].make(rng) for _ in range(count))


_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")


def _words(error: Exception) -> str:
    """The text of a refusal, without the input that it quotes."""
    text = error.kubelet if isinstance(error, QuantityError) else str(error)
    text = _QUOTED.sub("…", text.replace("\n", " ").replace("quantity's", "quantity"))
    text = re.sub(r"-?[0-9]+", "N", text)
    text = "".join(char if char.isprintable() else "?" for char in text)
    name = "" if isinstance(error, _Refused) else f"{type(error).__name__}: "
    return f"{name}{text[:90]}"


def replay(name: str, literal: str) -> int:
    """Try one input that was printed."""
    one = ast.literal_eval(literal)
    tally = Tally()
    run(name, iter([one]), tally)
    if tally.broken:
        print(tally.broken[0][1], end="")
        return 1
    print("taken" if tally.taken else f"refused: {next(iter(tally.refused))}")
    return 0


def _show(name: str, tally: Tally, seconds: float, most: int) -> None:
    refused = tally.refused.total()
    print(
        f"{name:10} {tally.taken + refused + len(tally.broken):>9,} inputs "
        f"{tally.taken:>9,} taken {refused:>9,} refused {len(tally.broken):>3} broken"
        f"  {seconds:6.1f} s"
    )
    for words, count in tally.refused.most_common(most):
        print(f"    {count:>9,}  {words}")
    if len(tally.refused) > most:
        rest = tally.refused.total() - sum(n for _, n in tally.refused.most_common(most))
        print(f"    {rest:>9,}  in {len(tally.refused) - most} other words")
    for one, story in tally.broken[:5]:
        print(f"  broken by {name} {one!a}\n{story}")
        print(f"  replay: python -m differential.fuzz --replay {name} and this on stdin:\n{one!a}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m differential.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(TARGETS), help="one kind of input")
    parser.add_argument("--words", type=int, default=8, help="how many refusals to list a kind")
    parser.add_argument("--replay", choices=sorted(TARGETS), help="try the literal on stdin")
    given = parser.parse_args(arguments)
    if given.replay:
        return replay(given.replay, sys.stdin.read())
    started = time.perf_counter()
    broken = total = 0
    for name, target in TARGETS.items():
        if given.only not in (None, name):
            continue
        count = given.inputs if given.only else round(given.inputs * target.share)
        tally, before = Tally(), time.perf_counter()
        run(name, made(name, count, given.seed), tally)
        _show(name, tally, time.perf_counter() - before, given.words)
        sys.stdout.flush()
        broken += len(tally.broken)
        total += count
    took = time.perf_counter() - started
    print(f"{total:,} inputs, seed {given.seed}: {broken} broken, {took:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
