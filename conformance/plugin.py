"""The pytest plugin: options ``--pin-*`` and fixtures.

It is loaded into every pytest session of an environment that has pinproof, so it imports few
modules of the project until the suite's test is collected. The shipped suite has one test, which is
parametrised here with every scenario on every machine that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from conformance.aliases import renamed
from conformance.garbage import collect_rarely
from conformance.session.options import OPTIONS, Option

if TYPE_CHECKING:
    from _pytest._code import TracebackEntry
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from conformance.judge import Case, Judgement
    from conformance.session.run import Run
    from conformance.session.together import Together
    from conformance.subject import Subject

RUN = "pinproof-run"
#: The key of a worker's input for what a user was asked for.
SECRETS = "pinproof-secrets"
#: The key of a worker's input for what was found out before it began.
FOUND = "pinproof-found"
#: The key of a worker's output for why it could not begin.
COULD_NOT_BEGIN = "pinproof-could-not-begin"
_COULD_NOT_BEGIN = pytest.StashKey[str]()
#: Subjects that are machines themselves.
REAL = "node:"
#: How the command line names the suite.
_SUITE = re.compile(r"\bconformance[./]suite\b")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. They are in the plugin, because those of a conftest are unknown under
    ``--pyargs``. Each is also a key of pytest's settings file (``pin_subject``); the command line
    overrides the file."""
    group = parser.getgroup("pinproof", "pinproof: conformance of the Kubernetes CPU Manager")
    for option in OPTIONS:
        parser.addini(option.key, f"default of {option.flag}", type=_kind(option))
        group.addoption(option.flag, default=None, help=_help(option), **_for_argparse(option))


def _kind(option: Option) -> Literal["args", "bool", "string"]:
    if option.repeatable:
        return "args"
    return "bool" if option.type is bool else "string"


def _help(option: Option) -> str:
    """The help with the default. argparse has none: the settings file may have another."""
    default = "" if option.default is None else f" Default: {option.default}."
    return " ".join(filter(None, (option.help, option.in_pytest))) + default


def _for_argparse(option: Option) -> dict[str, Any]:
    if option.type is bool:
        return {"action": "store_true"}
    if option.choices:
        return {"choices": option.choices}
    kind: dict[str, Any] = {"action": "append"} if option.repeatable else {"type": option.type}
    return {"metavar": option.metavar, **kind}


def _complete(config: pytest.Config) -> None:
    """Set options that are not on the command line from the settings file. Raises
    :class:`pytest.UsageError`."""
    for option in OPTIONS:
        if getattr(config.option, option.key) is None:
            value = _of_file(option, config.getini(option.key))
            setattr(config.option, option.key, value)


def _of_file(option: Option, value: Any) -> object:
    if option.repeatable or option.type is bool:
        return value
    given = value or option.default or ""
    if option.choices and given not in option.choices:
        known = ", ".join(option.choices)
        raise pytest.UsageError(f"{option.key} = {given}: it is one of {known}")
    try:
        return option.type(given)
    except ValueError:
        raise pytest.UsageError(f"{option.key} = {given}: it is a number") from None


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Hooks for plugins that follow a run."""
    from conformance.session import hooks

    pluginmanager.add_hookspecs(hooks)


#: The lines that pytest shows of the suite's markers.
MARKERS: Final = (
    "pinproof(area, level, risk): a scenario on a machine; its area, its level, and what it does "
    "to a node: read-only, pods, kubelet-restart, cpu-offline or reboot",
    "core: a scenario whose promise every node must keep",
    "extended: a scenario whose promise is reported and not required",
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the settings file, replace former ids in ``-k``, and add the suite's markers."""
    _complete(config)
    _take(config)
    if hasattr(config, "workerinput") and any(_SUITE.search(one) for one in config.args):
        _be_quiet_at_the_end()
    if keyword := config.getoption("-k", default=""):
        config.option.keyword = renamed(keyword)
    for line in MARKERS:
        config.addinivalue_line("markers", line)


def _be_quiet_at_the_end() -> None:
    """Silence a warning of pluggy: xdist's old-style hook in a worker fails to report the worker's
    end to a controller that was ended."""
    import warnings

    from pluggy import PluggyTeardownRaisedWarning

    warnings.filterwarnings("ignore", category=PluggyTeardownRaisedWarning)


def _take(config: pytest.Config) -> None:
    """On a worker: keep what :func:`pytest_configure_node` sent."""
    sent: dict[str, Any] = getattr(config, "workerinput", {})
    if secrets := sent.pop(SECRETS, {}):
        from conformance.secret import keep

        for name, text in secrets.items():
            keep(name, text)
    if found := sent.pop(FOUND, {}):
        from conformance.handed_on import take

        take(found)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """If the suite is asked for, check subject and machines before collection: a
    :class:`pytest.UsageError` in a collector would be shown as a traceback."""
    config = session.config
    if not hasattr(config, "workerinput") and _asks_for_the_suite(config):
        _require_scenarios()
        from conformance.session.knowing import known_of
        from conformance.session.resuming import before_of
        from conformance.session.selection import cases

        known_of(config)
        cases(config)
        before_of(config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """In a run of the suite, collect garbage rarely. Its tens of thousands of cases stay until the
    end, and collection would take a twentieth of the processor time."""
    if _asks_for_the_suite(session.config):
        collect_rarely()


def _asks_for_the_suite(config: pytest.Config) -> bool:
    return any(_SUITE.search(one) for one in config.args)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """On a worker of the suite: if it cannot begin, end the run with one line. In a collector that
    would be a traceback. Before the session has begun xdist would replace the worker."""
    config = session.config
    if not hasattr(config, "workerinput") or not _asks_for_the_suite(config):
        return
    from conformance.session.selection import cases
    from conformance.verdict import ExitStatus

    try:
        cases(config)
    except (pytest.UsageError, pytest.exit.Exception) as error:
        output: dict[str, Any] = vars(config)["workeroutput"]
        output[COULD_NOT_BEGIN] = session.shouldstop = str(error)
        pytest.exit(str(error), returncode=ExitStatus.COULD_NOT_TELL)


def _require_scenarios() -> None:
    """Raises :class:`pytest.UsageError` if a file of scenarios cannot be imported."""
    from conformance.importing import fault_of_scenarios

    try:
        import conformance.catalogue  # noqa: F401
    except Exception as error:
        if said := fault_of_scenarios(error):
            raise pytest.UsageError(said) from error
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> object | None:
    """Give a real node to one worker, whatever ``--dist`` says: two cannot hold its lease. If cases
    begin before their turn, use a scheduler that tells each worker its next cases."""
    if config.getoption("--pin-subject").startswith(REAL):
        from conformance.session.dealing import Nodewise

        return Nodewise(config, log)
    if config.getvalue("dist") != "load" or not any(_SUITE.search(one) for one in config.args):
        return None
    from conformance.session.judging import steadily

    return steadily(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a resumed run, leave out the cases that have a verdict."""
    if not items or not config.getoption("--pin-resume"):
        return
    from conformance.session.ahead import case_of
    from conformance.session.resuming import decided

    done = decided(config)
    decided_items = [one for one in items if (case := case_of(one)) is not None and case.id in done]
    if decided_items:
        config.hook.pytest_deselected(items=decided_items)
        undecided = {*items} - {*decided_items}
        items[:] = [one for one in items if one in undecided]


def _follow(config: pytest.Config) -> Run | None:
    """The bookkeeping of this run, made at the first call; ``None`` on a worker, which has none."""
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
    """Begin the run. Under xdist only workers collect: the controller gets their items here."""
    options = node.config.option
    if options.pin_resume or options.pin_shard or any("test_scenarios.py::" in one for one in ids):
        run = _follow(node.config)
        if run is not None and ids:
            run.begin(ids)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """On a worker: close its subject, and report to the controller what was not restored. If a
    worker could not begin, the run ends with :attr:`ExitStatus.COULD_NOT_TELL`."""
    import sys

    if _COULD_NOT_BEGIN in session.config.stash:
        from conformance.verdict import ExitStatus

        session.exitstatus = int(ExitStatus.COULD_NOT_TELL)
    session_subject = sys.modules.get("conformance.session.subject")
    output = getattr(session.config, "workeroutput", None)
    if session_subject is not None and output is not None:
        output[session_subject.NOT_RESTORED] = session_subject.close_subject(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Send a worker, through its pipe, what the user was asked for, what was found out, and which
    cases have a verdict."""
    import sys

    secrets = sys.modules.get("conformance.secret")
    if secrets is not None:
        node.workerinput[SECRETS] = secrets.for_a_worker()
    found = sys.modules.get("conformance.handed_on")
    if found is not None:
        node.workerinput[FOUND] = found.for_a_worker()
    if node.config.getoption("--pin-resume"):
        from conformance.session.resuming import DECIDED, decided

        node.workerinput[DECIDED] = sorted(decided(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    run = node.config.pluginmanager.get_plugin(RUN)
    output = getattr(node, "workeroutput", {}) or {}
    if said := output.get(COULD_NOT_BEGIN):
        node.config.stash[_COULD_NOT_BEGIN] = said
    if run is not None:
        run.learn_not_restored(output.get("pinproof-not-restored", ""))


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Leave out frames without a line: Python may be interrupted in an instruction that has none,
    and pytest fails to show such a frame."""
    excinfo.traceback = excinfo.traceback.filter(_has_line)


def _has_line(entry: TracebackEntry) -> bool:
    return (entry._rawentry.tb_lineno or 0) > 0  # None, or -1 up to Python 3.11.2


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
    from conformance.session.judging import judge_ahead
    from conformance.session.marks import marks_of
    from conformance.session.selection import cases
    from conformance.session.subject import subject_of

    _follow(metafunc.config)
    judge_ahead(metafunc.config, subject_of(metafunc.config))
    found: Sequence[Case | Together] = cases(metafunc.config)
    if metafunc.config.pluginmanager.has_plugin("conformance.session.together"):
        from conformance.session.together import together

        found = together(cases(metafunc.config))
    items = [pytest.param(one, id=one.id, marks=marks_of(one.scenario)) for one in found]
    metafunc.parametrize("pin_case", items)


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
