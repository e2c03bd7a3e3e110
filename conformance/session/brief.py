"""A plugin of pytest for ``pinproof run``: each case is called once and reported once.

pytest sets an item up, calls it and tears it down, and makes a report of each. That takes longer
than judging a case of the model, and under xdist most of a run. Reports of a setup or a teardown
are not needed here: the suite's test sets up only its subject, which the session keeps. ``pinproof
run`` loads this only if no other plugin was asked to read the reports.
"""

from __future__ import annotations

import pytest

from conformance.session.ahead import case_of
from conformance.session.judging import judge_item
from conformance.session.subject import subject_of
from conformance.session.together import together_of


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Call and report an item of the suite; pytest itself runs any other."""
    if case_of(item) is None and together_of(item) is None:
        return None
    call = pytest.CallInfo.from_call(
        lambda: item.ihook.pytest_runtest_call(item=item),
        when="call",
        reraise=(pytest.exit.Exception, KeyboardInterrupt),
    )
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Judge while pytest captures what is printed, and drop the test's arguments afterwards."""
    case = case_of(pyfuncitem)
    if case is None:
        return (yield)
    subject = subject_of(pyfuncitem.config)
    pyfuncitem.funcargs["pin_judgement"] = judge_item(case, subject, pyfuncitem)
    try:
        return (yield)
    finally:
        pyfuncitem.funcargs.clear()
