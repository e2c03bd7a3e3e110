"""The pytest plugin: options ``--pin-*`` and fixtures.

It is loaded into every pytest session of an environment that has pinproof, so it imports nothing
of the project until the suite's test is collected. The shipped suite has that one test; it is
parametrised here with every scenario on every machine asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from conformance.judge import Case, Judgement
    from conformance.session import Run
    from conformance.subject import Subject

RUN = "pinproof-run"
#: Subjects that are machines themselves.
REAL = "node:"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; they stand in the plugin, because those of a conftest are unknown under
    ``--pyargs``."""
    group = parser.getgroup("pinproof", "pinproof: conformance of the Kubernetes CPU Manager")
    group.addoption(
        "--pin-subject",
        default="reference",
        metavar="NAME",
        help="what is judged: reference, miniature:NAME, kubelet:BINARY, kubelet:1.36",
    )
    group.addoption(
        "--pin-machine",
        action="append",
        default=[],
        metavar="MACHINE",
        help="name, glob, 'all', archive, directory or described spec; repeatable (default: all)",
    )
    group.addoption(
        "--pin-release",
        default="",
        metavar="MINOR",
        help="judge by this release instead of the subject's own",
    )
    group.addoption(
        "--pin-behaviour",
        action="append",
        default=[],
        metavar="NAME=on|off",
        help="the subject has, or lacks, this named behaviour whatever its release; repeatable "
        "(pinproof releases lists them)",
    )
    group.addoption(
        "--pin-level",
        default="extended",
        choices=["core", "extended", "certificate"],
        help="core: only what every conformant node must keep; certificate: that, and all that "
        "only a real node can show (default: extended, which has all)",
    )
    group.addoption(
        "--pin-report",
        default="",
        metavar="DIR",
        help="write result.jsonl, junit.xml and report.html there",
    )
    group.addoption(
        "--pin-stream",
        default="",
        metavar="FILE",
        help="write the result stream alone, there",
    )
    group.addoption(
        "--pin-floor",
        type=int,
        default=1,
        metavar="N",
        help="exit status 4 if fewer scenarios pass than this (default 1)",
    )
    group.addoption(
        "--pin-no-smoke",
        action="store_true",
        help="do not try first whether the subject starts at all",
    )
    group.addoption(
        "--pin-record",
        default="",
        metavar="FILE",
        help="record what the subject showed after each step, as an oracle for later",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker of the suite's test."""
    config.addinivalue_line("markers", "pinproof: a scenario on a machine")


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
    from conformance.session import Run

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

    ours = sys.modules.get("conformance.session")
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

    session = sys.modules.get("conformance.session")
    if session is not None:
        session.close_subject(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the suite's test its cases."""
    if "pin_case" not in metafunc.fixturenames:
        return
    from conformance.session import cases

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
    from conformance.session import subject_of

    return subject_of(pytestconfig)


@pytest.fixture
def pin_judgement(
    pin_case: Case, pin_subject: Subject, request: pytest.FixtureRequest
) -> Judgement:
    """The case, judged; its result goes into the run's stream."""
    from conformance.session import judge_item

    return judge_item(pin_case, pin_subject, request.node)
