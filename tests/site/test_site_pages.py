"""The pages of the site that are made of the code and of the recordings."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import topologies
from conformance.catalogue import catalogue, find
from conformance.scenario import Scenario
from differential.kill_exceptions import NEVER_FAILED
from differential.named_faults.faults import known_faults
from differential.site import atlas, catching, defects, hook, recording, shelves
from differential.site import defect_finder as asking
from differential.site.machines import machine_files
from differential.site.scenarios import scenario_files
from differential.site.submissions import submission_files
from reports.submission.folder import SubmissionError
from tests.cli.running import here
from tests.support.browser import Browser

ROOT: Final = Path(__file__).parents[2]
CAUGHT: Final = catching.known()
DEFECTS: Final[list[defects.Defect]] = json.loads(
    (ROOT / "docs/tables/defects.json").read_text(encoding="utf-8")
)


def _scenario(name: str) -> Scenario:
    found = find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("since", "until", "kept", "cell"),
    [
        ("1.18", "", 3, "kept on 3 machines"),
        ("1.18", "", 0, atlas.NO_RECORDING),
        ("1.37", "", 3, atlas.NOT_PROMISED),
        ("1.18", "1.35", 3, atlas.NOT_PROMISED),
    ],
)
def test_a_cell_says_on_how_many_machines_a_promise_was_kept(
    since: str, until: str, kept: int, cell: str
) -> None:
    """Or that no recording was made, or that the release promises nothing."""
    one = replace(_scenario("packing/whole-core"), since=since, until=until)
    assert atlas.row(one, {"1.36": Counter({one.id: kept})}) == {"1.36": cell}


def test_a_defect_is_shown_and_not_kept() -> None:
    """Pull request 129078's defect: in 1.36, and in 1.37 no more."""
    one = _scenario("options/full-pcpus-restart-refuses-what-runs")
    cells = atlas.row(one, atlas.counts())
    assert cells["1.36"].startswith("shown on ")
    assert cells["1.37"] == atlas.NOT_PROMISED


def test_the_atlas_has_a_row_for_each_scenario_and_names_what_was_not_recorded() -> None:
    page = atlas.page(catalogue())
    assert [one.id for one in catalogue() if f"(../scenarios/{one.id}.md)" not in page] == []
    assert "No recording was made of 1.18," in page


def test_a_scenarios_page_has_its_promise_its_steps_and_its_drawing() -> None:
    one = _scenario("packing/whole-core")
    files = dict(scenario_files(one, {"1.36": "kept on 3 machines"}, CAUGHT))
    page, picture = files[f"scenarios/{one.id}.md"], files[f"scenarios/{one.id}.svg"]
    assert one.promise in page
    assert "2. start the kubelet" in page
    assert re.search(r"^\| 1\.36 \| v1\.36\.\d+ \| kept on 3 machines \|$", page, re.MULTILINE)
    assert picture.startswith("<svg ")
    assert "shared pool" in picture


def _section(name: str) -> str:
    return "\n".join(catching.section(name, CAUGHT))


def test_a_scenarios_page_has_the_miniatures_that_it_catches() -> None:
    """Those whose fault it names first. The kill matrix has them all."""
    told = _section("packing/whole-core")
    first = told.partition("| `")[2].partition("`")[0]
    assert first == "splits-cores"
    assert "Takes the lowest CPUs and never looks at cores" in told
    assert "the promise alone" in told
    assert re.search(r"^And \d+ more\.$", told, re.MULTILINE)


def test_a_scenarios_page_has_the_faults_in_a_kubelets_code_that_it_was_seen_to_catch() -> None:
    told = _section("restart/keeps-assignments-beside-a-gap")
    assert "named-faults.md#restart-allocates-again) | A kubelet that starts forgets" in told
    told = _section("state/overlap-is-refused")
    assert re.search(r"first to catch (one fault|\d+ faults) ", told)


def test_every_scenario_says_what_it_catches_or_why_nothing_makes_it_fail() -> None:
    told = {one.id: _section(one.id) for one in catalogue()}
    silent = {name for name, text in told.items() if "makes it fail:" not in text}
    assert silent == set()
    assert [name for name, text in told.items() if "makes it fail: ." in text] == []
    without = {name for name, text in told.items() if text.count("No [miniature]")}
    assert without == {one for names in NEVER_FAILED.values() for one in names}


def test_every_named_fault_is_on_the_page_of_a_scenario() -> None:
    on_pages = {name for faults in CAUGHT.faults.values() for name, _ in faults}
    assert on_pages == {one.name for one in known_faults() if not one.allowed}
    assert {name for name in CAUGHT.faults if find(name) is None} == set()


def test_a_machines_page_has_its_picture_its_source_and_its_digest() -> None:
    machine = topologies.machine("2s-2n-16c-smt2")
    files = dict(machine_files(machine))
    page = files["machines/2s-2n-16c-smt2.md"]
    assert machine.digest in page
    assert machine.source in page
    assert files["machines/2s-2n-16c-smt2.svg"].startswith("<svg ")


def test_a_link_to_the_repository_keeps_its_words_alone() -> None:
    """One to another page stays."""
    text = "[the table](../../reference/behaviours.py) [results](../reference/results.md)"
    mended = hook.without_links_to_the_repository(text, "how-to/x.md")
    assert mended == "the table [results](../reference/results.md)"


def test_a_page_loses_indentation_and_keeps_that_of_commands() -> None:
    page = "<p>\n    a\n\n  b</p><pre><code>x:\n    y\n</code></pre>\n   <p>c"
    kept = "<p>\na\nb</p><pre><code>x:\n    y\n</code></pre>\n<p>c"
    assert hook.without_indentation(page) == kept


def test_a_fence_that_names_a_file_has_it_as_its_title() -> None:
    """The site's Markdown would show the whole block as text."""
    text = "```yaml kubelet.yaml\na: 1\n```\n\n```sh background\nx\n```\n\n```sh\ny\n```\n"
    assert hook.with_titles(text) == (
        '```yaml title="kubelet.yaml"\na: 1\n```\n\n```sh\nx\n```\n\n```sh\ny\n```\n'
    )


def test_each_shelf_begins_with_a_list_of_its_pages() -> None:
    docs, made = ROOT / "docs", dict(hook.first_pages(ROOT / "docs"))
    menu = repr(hook.nav(docs))
    for shelf in shelves.SAYS:
        first = made.get(f"{shelf}/index.md", "")
        listed = [one for one in (docs / shelf).glob("*.md") if f"]({one.name})" in first]
        assert listed == [*(docs / shelf).glob("*.md")] or (docs / shelf / "README.md").exists()
        assert f"'{shelf}/{'index' if first else 'README'}.md'" in menu
    assert "`pinproof advise` takes a release, the settings" in made["how-to/index.md"]
    assert "(named-behaviours/index.md)" in made["reference/index.md"]


def test_every_submission_is_in_the_table_and_has_a_page_with_its_files() -> None:
    files = dict(submission_files())
    places = [one.relative_to(ROOT) for one in (ROOT / "submissions").glob("v*/*")]
    assert len(places) > 0
    for place in places:
        assert f"({place.relative_to('submissions')}/index.md)" in files["submissions/index.md"]
        page = files[f"{place}/index.md"]
        assert (ROOT / place / "README.md").read_text(encoding="utf-8") in page
        kept = (ROOT / place / "certificate.json").read_text(encoding="utf-8")
        assert "[certificate.json](certificate.json)" in page
        assert files[f"{place}/certificate.json"] == kept


def test_a_submission_that_was_changed_stops_the_site(tmp_path: Path) -> None:
    copy = shutil.copytree(ROOT / "submissions", tmp_path / "submissions")
    (certificate,) = copy.glob("*/*/certificate.json")
    certificate.write_text(certificate.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(SubmissionError, match=r"submission\.json:\d+: the digest of certificate"):
        list(submission_files(copy))


def test_every_page_of_docs_is_in_the_menu() -> None:
    """Or nobody finds it."""
    menu = repr(hook.nav(ROOT / "docs"))
    pages = [str(one.relative_to(ROOT / "docs")) for one in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in menu] == []


def test_the_picture_of_the_readme_is_what_simulate_draws(tmp_path: Path) -> None:
    made = tmp_path / "simulated.svg"
    words = ("--machine", "2s-2n-8c-smt2", "--pods", "3,2,4", "--svg", str(made))
    here("simulate", *words, status=0)
    assert "docs/pictures/simulated.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    kept = ROOT / "docs/pictures/simulated.svg"
    assert made.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")


def test_the_failure_of_the_readme_is_what_a_run_prints() -> None:
    """`python -m differential.site.recording` draws it. It loads nothing from elsewhere."""
    kept = (ROOT / "docs/pictures/failure.svg").read_text(encoding="utf-8")
    assert "docs/pictures/failure.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert kept.rstrip() == recording.picture().rstrip()
    assert "url(http" not in kept


def test_every_known_defect_has_its_page_and_its_source() -> None:
    """The list leads to each, with the releases that have it."""
    pages = defects.pages(DEFECTS)
    assert len(pages) == len(DEFECTS) + 1 > 30
    index = pages["defects/index.md"]
    for one in DEFECTS:
        page = pages[f"defects/{defects.name_of(one)}.md"]
        assert one["url"] in page
        assert one["avoid"] in page
        assert f"({defects.name_of(one)}.md)" in index
        if "facts" in one:
            assert f"\nReleases: {one['facts']['span']}. " in page
            assert f"| {one['facts']['span']} |" in index
        assert (f"](../scenarios/{one['scenario']}.md)" in page) is bool(one["scenario"])
    page = pages["defects/an-init-container-s-cpus-pin-its-pod-to-a-numa-node.md"]
    assert " --subject kubelet:1.37 -k topology/init-container-pins-its-pod\n" in page
    assert "kubelet:1.16" not in "".join(pages.values())  # none is built


def test_every_defect_with_facts_is_asked_for_and_leads_to_its_page() -> None:
    page = asking.page(DEFECTS)
    for one in DEFECTS:
        assert (f'href="../defects/{defects.name_of(one)}/"' in page) is ("facts" in one)


#: Asks for a release with an option, and takes down what the page says of it.
_ASKED: Final = """
const asked = (release, option) => {
    form.elements.release.value = release;
    for (const box of form.querySelectorAll("input")) box.checked = box.value === option;
    form.dispatchEvent(new Event("change"));
    const shown = [...document.querySelectorAll("li[data-ordinary=yes]:not([hidden])")];
    const is_shown = shown.some((one) => one.textContent.includes("#129078"));
    return [document.getElementById("said").textContent, is_shown];
};
document.title = JSON.stringify([
    asked("1.36", ""), asked("1.36", "full-pcpus-only"), asked("1.37", "full-pcpus-only"),
]);
"""


@pytest.mark.needs("chromium")
def test_the_page_names_129078_under_full_pcpus_only_alone(tmp_path: Path) -> None:
    """Of 1.36, and of 1.37 no more. A plain configuration has no known defect."""
    document = f"<!doctype html><title></title><body>{asking.page(DEFECTS)}</body>"
    plain, before, after = json.loads(Browser(tmp_path).probed(document, asking.SCRIPT + _ASKED))
    assert plain == ["No known defect applies.", False]
    assert before[1] is True
    assert after[1] is False
