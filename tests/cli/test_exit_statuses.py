"""A file of scenarios that cannot be imported is one line of every command that needs scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conformance import scenarios
from conformance.importing import fault_of_scenarios
from tests.cli.running import python

PLACE: Final = Path(scenarios.__file__).with_name("freed.py")


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


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package ``conformance``, whose file ``pool.py`` cannot be imported."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "conformance/scenarios").mkdir(parents=True)
    real = PLACE.parents[1]
    for path in (*real.iterdir(), *PLACE.parent.iterdir()):
        made = folder / "conformance" / path.relative_to(real)
        if path != PLACE.parent and path.name not in ("pool.py", "__pycache__"):
            made.symlink_to(path)
    (folder / "conformance/scenarios/pool.py").write_text("\nfrom reference import gone\n")
    return folder


@pytest.mark.parametrize(
    ("words", "before"),
    [
        (("pinproof", "run", "-k", "pool/"), "pinproof: "),
        (("pinproof", "explain", "pool/shrinks-and-grows"), "pinproof: "),
        (("pinproof", "probe", "ssh://root@127.0.0.1:1"), "pinproof: "),
        (("pinproof", "verify", "certificate.json"), "pinproof: "),
        (("pinproof", "report", "--witnesses", "all"), "pinproof: "),
        (("pytest", "--pyargs", "conformance.suite"), "ERROR: "),
    ],
    ids=lambda one: " ".join(one[:2]) if isinstance(one, tuple) else "",
)
def test_a_command_says_it_in_one_line(broken: Path, words: tuple[str, ...], before: str) -> None:
    """With the status of wrong usage, which pytest has as 4."""
    done = python("-m", *words, cwd=broken, PYTHONPATH=str(broken))
    place = broken / "conformance/scenarios/pool.py"
    said = f"{before}{place}:2: this file of scenarios cannot be imported: ImportError: "
    (line,) = filter(None, done.stderr.splitlines())
    assert line.startswith(said)
    assert (done.returncode, done.stdout.strip()) == (4 if words[0] == "pytest" else 2, "")


@pytest.mark.needs("ordinary user")  # root may search every folder
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--subject", "kubelet:{}/k"),
        ("simulate", "--machine", "1s-1n-4c-smt1", "--pods", "{}/p"),
        ("verify", "{}/c"),
    ],
    ids=lambda one: one[0],
)
def test_a_folder_that_may_not_be_searched_is_one_line(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0)
    done = python("-m", "pinproof", *(one.format(shut) for one in words))
    shut.chmod(0o700)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"pinproof: {shut}/{words[-1][-1]}: Permission denied"]
