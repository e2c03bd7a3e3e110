"""``pinproof ci init``: its YAML by the published schemas, its shell by running it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from conformance.subject import SubjectUsageError
from pinproof import ci
from tests.cli.running import Done, here
from tests.installing.built import ROOT, loaded, published
from tests.support import lacking
from tests.support.fork import committed, git, program, shell

PLACES: Final = {
    "github": ".github/workflows/pinproof.yml",
    "gitlab": ".gitlab/pinproof.yml",
    "prow": "pinproof-prow.yaml",
}
MACHINE: Final = "1s-1n-4c-smt2"
PACKAGE: Final = ("--package", "git+https://example.org/pinproof@0123abc")
WRONG: Final = "miniature:forgets-to-give-back"


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A repository with a pinproof that judges few scenarios, and programs that only say what they
    were called with."""
    folder = tmp_path / "fork"
    committed(folder)
    few = 'if [[ $1 == run ]]; then set -- "$@" -k pool/ -n 0; fi'
    program(folder, "pinproof", f'{few}\nexec {sys.executable} -m pinproof "$@"\n')
    built = "mkdir -p _output/bin; : >_output/bin/kubelet; chmod +x _output/bin/kubelet"
    program(folder, "make", f'echo "make $*" >>calls\n{built}\n')
    program(folder, "sudo", 'while [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
    program(folder, "curl", 'echo "curl $*" >>calls\nexit "${CURL_STATUS:-22}"\n')
    return folder


_PROWJOB = Path(__file__).with_name("prowjob-schema.json")


def _init(folder: Path, forge: str, *more: str) -> Any:
    words = ("--directory", str(folder), "--machine", MACHINE, *PACKAGE, *more)
    done = here("ci", "init", forge, *words, status=0)
    assert done.stdout.splitlines() == [str(folder / PLACES[forge])]
    return yaml.safe_load((folder / PLACES[forge]).read_text())


@pytest.mark.parametrize(
    ("forge", "name"), [("github", "github-workflows"), ("gitlab", "gitlab-ci")]
)
def test_the_yaml_is_as_the_published_schema_says(tmp_path: Path, forge: str, name: str) -> None:
    validator = published(name)
    _init(tmp_path, forge)
    workflow = loaded(tmp_path / PLACES[forge])
    validator.validate(workflow)
    job = workflow["jobs"]["pinproof"] if forge == "github" else workflow["pinproof"]
    job["steps" if forge == "github" else "script"] = 7
    assert not validator.is_valid(workflow)


def _closed(schema: Any) -> Any:
    """The schema that refuses what it does not name, as Prow does when it reads jobs strictly."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(one) for name, one in schema.items()}
    return closed | ({"additionalProperties": False} if "properties" in schema else {})


def test_prow_s_jobs_are_as_far_as_a_schema_is_published(tmp_path: Path) -> None:
    """That is for ProwJobs, which Prow makes of jobs: pods and repositories. There is none for the
    other fields of a job, of which those that it requires are looked at. NOTICE has the origin."""
    jsonschema = lacking.module("jsonschema")
    schema = _closed(json.loads(_PROWJOB.read_text(encoding="utf-8")))
    workflow = _init(tmp_path, "prow")
    (presubmit,) = workflow["presubmits"]["ORG/REPO"]
    (periodic,) = workflow["periodics"]
    pod = jsonschema.Draft202012Validator(schema["pod_spec"])
    for job in (presubmit, periodic):
        pod.validate(job["spec"])
        assert job["name"]
        assert job["decorate"] is True
    jsonschema.Draft202012Validator(schema["extra_refs"]).validate(periodic["extra_refs"])
    assert presubmit["spec"] == periodic["spec"]
    (container,) = periodic["spec"]["containers"]
    assert container["args"][0].count("./pinproof-gate.sh") == 3
    assert re.search(presubmit["run_if_changed"], "pkg/kubelet/kubelet.go")
    assert not re.search(presubmit["run_if_changed"], "pkg/proxy/proxy.go")
    container["arg"] = ["a"]
    assert not pod.is_valid(periodic["spec"])


def _commands(forge: str, workflow: Any) -> list[str]:
    """The shell of a job, but for what installs."""
    if forge == "github":
        steps = [one["run"] for one in workflow["jobs"]["pinproof"]["steps"] if "run" in one]
        return [one for one in steps if "pip install" not in one]
    if forge == "gitlab":
        return list(workflow["pinproof"]["script"])
    text = workflow["periodics"][0]["spec"]["containers"][0]["args"][0]
    return [
        "\n".join(line for line in text.splitlines() if not re.search("apt-get|pip|venv", line))
    ]


@pytest.mark.parametrize("forge", PLACES)
def test_the_shell_of_a_job_builds_judges_and_reports(fork: Path, forge: str) -> None:
    """With a model in the kubelet's place, on a fork that has no results on its main branch yet."""
    workflow = _init(fork, forge)
    (fork / "artifacts").mkdir()
    variables = {
        "PINPROOF_SUBJECT": "reference",
        "PINPROOF_JOB": "https://example.org/logs",
        **({"ARTIFACTS": str(fork / "artifacts")} if forge == "prow" else {}),
        **({"GITHUB_STEP_SUMMARY": str(fork / "summary")} if forge == "github" else {}),
    }
    for command in _commands(forge, workflow):
        done = shell(fork, command, **variables)
        assert done.returncode == 0, command + done.stdout + done.stderr
    assert (fork / "calls").read_text().startswith("make WHAT=cmd/kubelet")
    out = fork / "pinproof-out"
    assert {one.name for one in out.iterdir()} >= {"result.jsonl", "junit.xml", "report.html"}
    if forge == "github":
        assert (fork / "summary").read_text().startswith("## Conformant")
        assert (fork / "pinproof-base/result.jsonl").exists()
    if forge == "prow":
        names = {one.name for one in (fork / "artifacts").iterdir()}
        assert names == {"junit_pinproof.xml", "result.jsonl", "report.html"}


def test_the_cached_kubelet_is_built_again_for_other_sources_only(fork: Path) -> None:
    _init(fork, "gitlab")
    for expected in (1, 1):
        assert shell(fork, "./pinproof-gate.sh build").returncode == 0
        assert (fork / "calls").read_text().count("make ") == expected
    (fork / "pkg/kubelet.go").write_text("package other\n")
    git(fork, "commit", "-q", "-a", "-m", "second")
    assert shell(fork, "./pinproof-gate.sh build").returncode == 0
    assert (fork / "calls").read_text().count("make ") == 2
    program(fork, "make", "exit 2\n")
    (fork / "pkg/kubelet.go").write_text("package broken\n")
    git(fork, "commit", "-q", "-a", "-m", "third")
    assert shell(fork, "./pinproof-gate.sh build").returncode != 0
    assert not (fork / "_output/bin/kubelet.stamp").exists()


def _gated(fork: Path, subject: str, **variables: str) -> Done:
    """The gate after a run."""
    return shell(fork, "./pinproof-gate.sh run", PINPROOF_SUBJECT=subject, **variables)


def test_a_job_that_explores_fails_by_what_it_finds(fork: Path) -> None:
    """Though the main branch breaks the same promises of the catalogue."""
    _init(fork, "gitlab", "--explore", "0.05")
    assert _gated(fork, WRONG).returncode == 1
    shutil.copytree(fork / "pinproof-out", fork / "pinproof-base")
    assert (fork / "pinproof-out/explored/causes/1/story.txt").exists()
    assert _gated(fork, WRONG).returncode == 1
    assert _gated(fork, WRONG, PINPROOF_EXPLORE="0").returncode == 0
    assert not (fork / "pinproof-out/explored").exists()


def test_a_fork_that_starts_red_is_gated_by_news(fork: Path) -> None:
    """First by comparison with the main branch; with a list of known failures, by that."""
    _init(fork, "gitlab")
    assert _gated(fork, WRONG).returncode == 1
    shutil.copytree(fork / "pinproof-out", fork / "pinproof-base")
    same = _gated(fork, WRONG)
    assert same.returncode == 0
    assert "No regression" in same.stdout
    assert (fork / "pinproof-out/compared.md").read_text().startswith("## No regression")
    unknown = _gated(fork, "nothing")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert _gated(fork, "miniature:never-updates").returncode == 1
    stream = str(fork / "pinproof-base/result.jsonl")
    here("known", "--from", stream, "-o", str(fork / "known-failures.toml"), status=0)
    assert _gated(fork, WRONG).returncode == 0
    assert _gated(fork, "reference").returncode == 1


def test_a_difference_that_is_gone_turns_the_job_red(fork: Path) -> None:
    """Also where the main branch has results: a list of differences is the gate."""
    _init(fork, "gitlab")
    assert _gated(fork, "reference").returncode == 0
    shutil.copytree(fork / "pinproof-out", fork / "pinproof-base")
    behaviours = 'fork = "example 1.36"\n'
    (fork / "behaviours.toml").write_text(behaviours)
    assert _gated(fork, "reference").returncode == 0
    behaviours += '[[difference]]\nname = "own-pool"\nreason = "of old"\nscenarios = '
    (fork / "behaviours.toml").write_text(f'{behaviours}["pool/shrinks-and-grows"]\n')
    assert _gated(fork, "reference").returncode == 1


@pytest.mark.parametrize("status", ["0", "22"])
def test_results_of_the_main_branch_may_be_missing(fork: Path, status: str) -> None:
    _init(fork, "gitlab")
    url = "https://example.org/r.jsonl"
    done = shell(fork, "./pinproof-gate.sh base", PINPROOF_BASE_URL=url, CURL_STATUS=status)
    assert done.returncode == 0
    assert ("no results yet" in done.stdout) is (status != "0")
    assert url in (fork / "calls").read_text()
    assert shell(fork, "./pinproof-gate.sh nonsense").returncode == 2


def test_nothing_is_overwritten_and_nothing_odd_is_written(tmp_path: Path) -> None:
    (tmp_path / "pinproof-gate.sh").write_text("mine")
    done = here("ci", "init", "github", "--directory", str(tmp_path), *PACKAGE, status=2)
    assert "pinproof-gate.sh exists (--force overwrites it)" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["pinproof-gate.sh"]
    for odd in ("a'b", "$(reboot)", "a\nb", "", "a: b"):
        words = ("--directory", str(tmp_path), *PACKAGE, "--build", odd)
        done = here("ci", "init", "prow", *words, status=2)
        assert done.stderr.count("\n") == 1
    assert (tmp_path / "pinproof-gate.sh").read_text() == "mine"


class _Installed:
    """A package as importlib.metadata has it, with what pip wrote of its origin."""

    version = "1.2.3"

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (None, "==1.2.3"),
        (
            {"url": "https://example.org/p", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}},
            " @ git+https://example.org/p@0123abc",
        ),
        ({"url": "https://example.org/p.whl", "archive_info": {}}, " @ https://example.org/p.whl"),
    ],
)
def test_a_job_installs_what_is_installed_here(
    origin: object, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forms are those of PEP 610."""
    monkeypatch.setattr(ci, "distribution", lambda _: _Installed(origin))
    done = CliRunner().invoke(ci.app, ["init", "github", "--directory", str(tmp_path)])
    assert done.exit_code == 0, done.output
    package = f"pinproof[sandbox]{source}"
    assert f"the job installs pinproof from {package}" in done.stderr
    assert f"pip install --quiet '{package}'" in (tmp_path / PLACES["github"]).read_text()


def test_a_folder_of_this_machine_is_no_place_for_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = {"url": "file:///src/pinproof", "dir_info": {}}
    monkeypatch.setattr(ci, "distribution", lambda _: _Installed(origin))
    with pytest.raises(SubjectUsageError, match="give --package git"):
        ci.installed_from()


@pytest.mark.parametrize("forge", PLACES)
def test_what_installs_is_shell_that_calls_pip_once(fork: Path, forge: str) -> None:
    _init(fork, forge)
    for name in ("pip", "python"):
        program(fork, name, f'echo "{name} $*" >>calls\n')
    text = (fork / PLACES[forge]).read_text()
    (line,) = {one for one in text.splitlines() if "pip install" in one}
    command = re.sub(r"^.*(?=(?:python -m )?pip install)|^.*&& (?=pip install)", "", line)
    assert shell(fork, command.strip()).returncode == 0
    called = (fork / "calls").read_text().strip()
    assert called.endswith(f" install --quiet pinproof[sandbox] @ {PACKAGE[1]}")


@pytest.mark.parametrize("package", ["./pinproof", "./pinproof[sandbox]"])
def test_a_folder_is_installed_with_what_judges_kubelets(package: str, tmp_path: Path) -> None:
    words = ["init", "prow", "--directory", str(tmp_path), "--package", package]
    assert CliRunner().invoke(ci.app, words).exit_code == 0
    assert "install --quiet './pinproof[sandbox]'" in (tmp_path / PLACES["prow"]).read_text()


def test_the_workflow_of_this_project_is_as_the_one_that_is_written(fork: Path) -> None:
    """As far as both do the same: which versions of actions they use, on which machine, with which
    right, which job ends another, and how they become root."""
    ours = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    written = _init(fork, "github")
    (job,), made = ours["jobs"].values(), written["jobs"]["pinproof"]
    versions = dict(_action(one) for one in made["steps"] if "uses" in one)
    used = dict(_action(one) for one in job["steps"] if "uses" in one)
    assert len(used) > 2
    assert used == {name: versions.get(name) for name in used}
    assert job["runs-on"] == made["runs-on"]
    assert ours["permissions"].items() <= written["permissions"].items()
    ends = "cancel-in-progress"
    assert ours["concurrency"][ends] == written["concurrency"][ends]
    as_root = 'sudo --preserve-env env "PATH=$PATH" '
    for steps in (job["steps"], made["steps"]):
        assert sum(str(one.get("run", "")).startswith(as_root) for one in steps) == 1


def _action(step: Any) -> tuple[str, str]:
    name, _, version = str(step["uses"]).partition("@")
    return name, version
