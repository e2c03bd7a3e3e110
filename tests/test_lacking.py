"""What is not tested for want of something is said in one block, with one line that installs it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cli.running import python, ran
from tests.support import lacking

ROOT = Path(__file__).parents[1]


def test_a_block_counts_tests_and_names_what_installs_it() -> None:
    reasons = [
        ("tests/a.py", f"Skipped: {lacking.reason('sshd')}"),
        ("tests/a.py", lacking.reason("sshd", "an SSH server: of one's own")),
        ("tests/b.py", lacking.reason("sshd")),
        ("tests/c.py", lacking.reason("sshd")),
        ("tests/d.py", lacking.reason("sshd")),
        ("tests/b.py", lacking.reason("ssh-keygen")),
        ("tests/b.py", lacking.reason("etcd")),
        ("tests/b.py", lacking.reason("kubelet", "or set PINPROOF_KUBELET to one")),
        ("tests/b.py", "this release has no sidecars"),
    ]
    assert [*lacking.block(reasons)] == [
        "5 tests without sshd: tests/a.py, tests/b.py, tests/c.py and 1 file more",
        "1 test without ssh-keygen: tests/b.py",
        "1 test without etcd: tests/b.py",
        "1 test without a real kubelet: tests/b.py",
        "to test them: apt-get install etcd-server openssh-client openssh-server",
        "to test them: pinproof build kubelet 1.36",
    ]


def test_a_run_that_lacks_nothing_has_no_block() -> None:
    assert not [*lacking.block([("tests/b.py", "this release has no sidecars")])]


def test_a_run_ends_with_the_block(tmp_path: Path) -> None:
    """Also where another process skips. There is no program on this PATH."""
    test = "tests/topologies/test_machine_import.py"
    words = ("-q", "-p", "no:cacheprovider", "-n", "2", "-k", "hwloc_gathers_here", test)
    done = python("-m", "pytest", *words, cwd=ROOT, status=0, PATH=str(tmp_path))
    _, _, block = done.stdout.partition(" NOT TESTED =")
    assert f"\n1 test without hwloc-gather-topology: {test}\n" in block
    assert "\nto test them: apt-get install hwloc-nox\n" in block
    assert "SKIPPED" not in block  # they come before it


def _asked_for() -> Iterator[tuple[str, str]]:
    """Each file, and a part that it names."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                named = f"{ast.unparse(call.func.value)}.{call.func.attr}"
                several = named in ("pytest.mark.needs", "lacking.need")
                if several or named in ("lacking.skip", "lacking.program", "lacking.reason"):
                    for word in call.args if several else call.args[:1]:
                        if isinstance(word, ast.Constant):
                            yield path.name, str(word.value)


def test_every_part_that_a_test_names_is_in_the_table() -> None:
    """On a machine that has everything, no wrong name would show."""
    asked = [*_asked_for()]
    assert len(asked) > 40
    assert [one for one in asked if one[1] not in lacking.PARTS] == []


def test_packages_are_listed_without_any_package_of_python(tmp_path: Path) -> None:
    """``.ci/run`` asks before anything is installed."""
    words = ("-I", "-S", "tests/support/lacking.py", "--packages")
    done = ran(sys.executable, *words, cwd=ROOT, env={"PATH": str(tmp_path)}, status=0)
    assert {"chromium", "etcd-server", "hwloc-nox", "qemu-system-x86"} <= {*done.stdout.split()}
