"""The pytest plugin: options ``--pin-*`` and fixtures.

It is loaded into every pytest session of an environment that has pinproof, so it imports nothing
of the project until the suite's test is collected. The shipped suite has that one test; it is
parametrised here with every scenario on every machine asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from conformance.aliases import renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from conformance.judge import Case, Judgement
    from conformance.session.run import Run
    from conformance.subject import Subject

RUN = "pinproof-run"
#: Subjects that are machines themselves.
REAL = "node:"
#: How the command line names the suite.
_SUITE = re.compile(r"\bconformance[./]suite\b")

#: Each option: its help, and what it is to pytest.
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "--pin-subject": (
        "what is judged: reference, miniature:NAME, kubelet:BINARY, kubelet:1.36 "
        "(default: reference)",
        {"metavar": "NAME"},
    ),
    "--pin-machine": (
        "name, glob, 'all', archive, directory or described spec; repeatable (default: all)",
        {"metavar": "MACHINE", "action": "append"},
    ),
    "--pin-release": (
        "judge by this release instead of the subject's own",
        {"metavar": "MINOR"},
    ),
    "--pin-behaviour": (
        "the subject has, or lacks, this named behaviour whatever its release; repeatable "
        "(pinproof releases lists them)",
        {"metavar": "NAME=on|off", "action": "append"},
    ),
    "--pin-level": (
        "core: only what every conformant node must keep; certificate: that, and all that "
        "only a real node can show (default: extended, which has all)",
        {"choices": ["core", "extended", "certificate"]},
    ),
    "--pin-report": (
        "write result.jsonl, junit.xml and report.html there",
        {"metavar": "DIR"},
    ),
    "--pin-stream": ("write the result stream alone, there", {"metavar": "FILE"}),
    "--pin-floor": (
        "exit status 4 if fewer scenarios pass than this (default 1)",
        {"metavar": "N", "type": int},
    ),
    "--pin-no-smoke": (
        "do not try first whether the subject starts at all",
        {"action": "store_true"},
    ),
    "--pin-record": (
        "record what the subject showed after each step, as an oracle for later",
        {"metavar": "FILE"},
    ),
}
_DEFAULTS = {"--pin-subject": "reference", "--pin-level": "extended", "--pin-floor": "1"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; they stand in the plugin, because those of a conftest are unknown under
    ``--pyargs``. Each is a key of pytest's settings file as well (``pin_subject``); what stands on
    the command line goes before."""
    group = parser.getgroup("pinproof", "pinproof: conformance of the Kubernetes CPU Manager")
    for name, (help_text, settings) in _OPTIONS.items():
        kind = {"append": "args", "store_true": "bool"}.get(settings.get("action", ""), "string")
        parser.addini(_key(name), f"default of {name}", type=kind)  # type: ignore[arg-type]
        group.addoption(name, default=None, help=help_text, **settings)


def _key(name: str) -> str:
    """``pin_subject`` of ``--pin-subject``: the key in a settings file, and the attribute."""
    return name.removeprefix("--").replace("-", "_")


def _complete(config: pytest.Config) -> None:
    """Options that are not on the command line, from the settings file. Raises
    :class:`pytest.UsageError`."""
    for name, (_, settings) in _OPTIONS.items():
        key = _key(name)
        if getattr(config.option, key) is None:
            value = config.getini(key)
            setattr(config.option, key, _of_file(name, value, settings))


def _of_file(name: str, value: Any, settings: Mapping[str, Any]) -> object:
    if settings.get("action"):
        return value
    given = value or _DEFAULTS.get(name, "")
    choices = settings.get("choices", (given,))
    if given not in choices:
        raise pytest.UsageError(f"{_key(name)} = {given}: it is one of {', '.join(choices)}")
    try:
        return settings.get("type", str)(given)
    except ValueError:
        raise pytest.UsageError(f"{_key(name)} = {given}: it is a number") from None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The marker of the suite's test, what the settings file says, and old ids in ``-k``."""
    _complete(config)
    if keyword := config.getoption("-k", default=""):
        config.option.keyword = renamed(keyword)
    config.addinivalue_line("markers", "pinproof: a scenario on a machine")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Where the suite is asked for, look at subject and machines before anything is collected: in
    a collector a :class:`pytest.UsageError` would be a traceback."""
    config = session.config
    if not hasattr(config, "workerinput") and any(_SUITE.search(one) for one in config.args):
        from conformance.session.selection import cases

        cases(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> object | None:
    """A real node belongs to one worker, whatever ``--dist`` says: two cannot have it."""
    if not config.getoption("--pin-subject").startswith(REAL):
        return None
    from conformance.nodewise import Nodewise

    return Nodewise(config, log)


def _follow(config: pytest.Config) -> Run | None:
    """The bookkeeping of this run, begun once; ``None`` on a worker, which keeps no books."""
    if hasattr(config, "workerinput"):
        return None
    from conformance.session.run import Run

    run: Run | None = config.pluginmanager.get_plugin(RUN)
    if run is None:
        run = Run(config)
        config.pluginmanager.register(run, RUN)
    return run


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerController, ids: list[str]) -> None:
    """Under xdist the controller collects nothing itself: it learns here what the workers run."""
    if any("test_scenarios.py::" in one for one in ids):
        run = _follow(node.config)
        if run is not None:
            run.begin(ids)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """On a worker: close its subject, and tell the controller what could not be left as it was."""
    import sys

    ours = sys.modules.get("conformance.session.subject")
    output = getattr(session.config, "workeroutput", None)
    if ours is not None and output is not None:
        output[ours.NOT_RESTORED] = ours.close_subject(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """A worker has ended."""
    run = node.config.pluginmanager.get_plugin(RUN)
    output = getattr(node, "workeroutput", {}) or {}
    if run is not None:
        run.learn_not_restored(output.get("pinproof-not-restored", ""))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the subject of this process, if one was opened."""
    import sys

    session = sys.modules.get("conformance.session.subject")
    if session is not None:
        session.close_subject(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the suite's test its cases."""
    if "pin_case" not in metafunc.fixturenames:
        return
    from conformance.session.selection import cases

    _follow(metafunc.config)
    found = cases(metafunc.config)
    metafunc.parametrize("pin_case", [pytest.param(case, id=case.id) for case in found])


@pytest.fixture
def pin_case(request: pytest.FixtureRequest) -> Case:
    """A scenario on a machine."""
    case: Case = request.param
    return case


@pytest.fixture(scope="session")
def pin_subject(pytestconfig: pytest.Config) -> Subject:
    """The subject of this run, opened once in each process."""
    from conformance.session.subject import subject_of

    return subject_of(pytestconfig)


@pytest.fixture
def pin_judgement(
    pin_case: Case, pin_subject: Subject, request: pytest.FixtureRequest
) -> Judgement:
    """The case, judged; its result goes into the run's stream."""
    from conformance.session.judging import judge_item

    return judge_item(pin_case, pin_subject, request.node)
