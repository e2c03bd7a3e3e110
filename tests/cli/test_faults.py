"""A file of scenarios that cannot be imported is one line of every command that needs scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import scenarios
from pinproof.faults import fault_of_scenarios

PLACE = Path(scenarios.__file__).with_name("freed.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nGone\n", "2: this file of scenarios cannot be imported: NameError: name 'Gone'"),
        ("import no_such_module", "1: this file of scenarios cannot be imported: ModuleNotFound"),
        ("x = 1\ndef f(:\n", "2: this file of scenarios cannot be imported: SyntaxError: "),
    ],
)
def test_file_and_line_are_named(text: str, said: str) -> None:
    with pytest.raises((NameError, ImportError, SyntaxError)) as caught:
        exec(compile(text, str(PLACE), "exec"), {})
    assert fault_of_scenarios(caught.value).startswith(f"{PLACE}:{said}")


def test_an_error_of_elsewhere_is_none_of_theirs() -> None:
    with pytest.raises(NameError) as caught:
        exec(compile("Gone", __file__, "exec"), {})
    assert fault_of_scenarios(caught.value) == ""
