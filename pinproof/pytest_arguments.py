"""What ``run`` and ``certify`` hand to pytest beside their own options."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import conformance.suite
from conformance.plugin import MARKERS
from conformance.session.keywords import may_match
from conformance.subject import SubjectUsageError
from topologies.errors import one_line
from topologies.user_cache import cache_folder

SUITE: Final = Path(conformance.suite.__file__).parent
#: The suite alone, without the caller's configuration. Some hooks of pytest are off, which would
#: cost a tenth of a run: the project's assertions never fail, and what is logged or goes wrong in
#: other threads belongs to the subject's evidence.
ALONE: Final = (
    str(SUITE / "test_scenarios.py"),
    *(f"--rootdir={SUITE}", "-c", "/dev/null", "--assert=plain"),
    *(
        word
        for name in ("logging", "unraisableexception", "hypothesispytest")
        for word in ("-p", f"no:{name}")
    ),
)
#: pytest prints nothing itself.
QUIET: Final = ("-qq", "--no-header", "--no-summary", "--tb=no", "--show-capture=no")
#: One report for each case. A plugin such as ``--junitxml`` may wait for those of setup and
#: teardown.
BRIEF: Final = ("-p", "conformance.session.brief")
#: One item for a scenario.
TOGETHER: Final = ("-p", "conformance.session.together")
_LEAVES_BRIEF: Final = re.compile(
    r"-x|-r\w+|--exitfirst|--maxfail=\d+|-n=?(\d+|auto)|-n|\d+|auto|--lf|--last-failed|--ff|--failed-first"
)
#: From how many cases of a subject on a second process saves more than the second of processor time
#: that it costs. Other subjects may not bear several processes.
PAYS_FROM: Final = {"reference": 1200, "miniature": 1200, "exec": 1200, "kubelet": 8}
MOST_WORKERS: Final = 8
#: Subjects that live in the process that judges.
_WITHIN: Final = ("reference", "miniature")
_ASKS_ALL: Final = re.compile(r"-r\w+|-n=?(\d+|auto)|-n|\d+|auto")
#: Options of pytest that people use, for the hint beside an unknown one.
_COMMON: Final = (
    *("--lf", "--ff", "--last-failed", "--failed-first", "--maxfail", "--exitfirst"),
    *("--durations", "--numprocesses", "--dist", "--collect-only"),
)


class _Parsed:
    """A pytest plugin that ends pytest as soon as it has read its command line, ``-k`` and ``-m``
    too: workers would break on a malformed expression."""

    config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        for line in MARKERS:  # --strict-markers asks for them
            config.addinivalue_line("markers", line)
        config.hook.pytest_collection_modifyitems(session=None, config=config, items=[])
        self.config = config
        return 0


def parsed(more: Sequence[str], own: Iterable[str] = ()) -> pytest.Config:
    """``more`` as pytest reads it. Raises :class:`SubjectUsageError` for what it does not know;
    ``own`` are the command's own options, which may have been meant."""
    reader, output = _Parsed(), io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            pytest.main([*ALONE, *more], plugins=[reader])
    except ImportError as error:  # -p with a plugin that is none
        raise SubjectUsageError(one_line(str(error))) from error
    if reader.config is None:
        raise SubjectUsageError(_refusal(output.getvalue(), own))
    if extra := reader.config.args[1:]:
        raise SubjectUsageError(
            f"unknown argument {one_line(extra[0])!r}: a machine is named with --machine, "
            "scenarios with -k"
        )
    return reader.config


def _refusal(text: str, own: Iterable[str]) -> str:
    """The error in pytest's usage text, on one line."""
    said = text.rpartition("error: ")[2].strip().partition("\n")[0].removeprefix("ERROR: ")
    unknown = said.removeprefix("unrecognized arguments: ")
    if unknown == said:
        return one_line(said) or "pytest refuses these arguments"
    option = unknown.split()[0].partition("=")[0]
    near = difflib.get_close_matches(option, [*own, *_COMMON], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no such option: {one_line(option)}{hint}"


def workers(subject: str, names: Collection[str], config: pytest.Config | None) -> list[str]:
    """The option that spreads a run over the CPUs of this host, where that pays; ``names`` are the
    ids of all its cases. Nothing where the caller has said how many processes, or asked for what
    takes one: the first failure, the failures of the last run, a debugger."""
    cpus = len(os.sched_getaffinity(0))
    least = PAYS_FROM.get(subject.partition(":")[0])
    if cpus < 2 or least is None or (config is not None and _takes_one(config)):
        return []
    keyword = config.getoption("keyword") if config is not None else ""
    if sum(map(may_match(keyword), names)) < least:
        return []
    return ["-n", str(min(cpus, MOST_WORKERS))]


def brief(more: Iterable[str]) -> tuple[str, ...]:
    """The plugin that makes one report a case, where ``more`` has nothing that may want others."""
    return BRIEF if all(_LEAVES_BRIEF.fullmatch(word) for word in more) else ()


def together(subject: str, more: Iterable[str]) -> tuple[str, ...]:
    """The plugin that judges a scenario on all machines in one item, where the subject bears it
    and ``more`` chooses no cases and does not end the run early."""
    fits = subject.partition(":")[0] in _WITHIN
    return TOGETHER if fits and asks_all(more) else ()


def asks_all(more: Iterable[str]) -> bool:
    """Whether ``more`` chooses no cases and does not end the run early: processes and ``-r``."""
    return all(_ASKS_ALL.fullmatch(word) for word in more)


def _takes_one(config: pytest.Config) -> bool:
    chosen: dict[str, Any] = vars(config.option)
    said = ("numprocesses", "tx", "maxfail", "lf", "stepwise", "usepdb", "trace", "collectonly")
    return (
        any(chosen.get(name) not in (None, False, 0, []) for name in said)
        or chosen.get("numprocesses") == 0
        or chosen.get("capture") == "no"
    )


def memory(subject: str) -> list[str]:
    """The option with which pytest remembers what failed last (``--lf``, ``--ff``), for each
    subject apart."""
    scheme, colon, rest = subject.partition(":")
    if rest and Path(rest).exists():
        rest = str(Path(rest).absolute())
    key = hashlib.sha256(f"{scheme}{colon}{rest}".encode()).hexdigest()[:16]
    return ["-o", f"cache_dir={cache_folder('last-runs', f'{scheme}-{key}')}"]
