"""The page in a real browser: nothing in a stream runs, and the pictures are there."""

from __future__ import annotations

import json
import re
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import reports
from reports import html
from reports.run import Run
from tests.cli.running import here
from tests.reports.conftest import HOSTILE, fakes
from tests.support.browser import DESKTOP, PHONE, Browser

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("browser"))


def test_nothing_in_a_hostile_stream_runs(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html.document(fakes.hostile()))
    dom = browser.open(page, "--dump-dom")
    assert b"<title>owned" not in dom
    assert b"What failed" in dom
    assert dom.count(b"<script") == 1
    assert b"<img" not in dom


def test_the_browser_would_have_run_it_and_the_policy_alone_would_stop_it(
    browser: Browser, tmp_path: Path
) -> None:
    """The control for the test above, and the second wall by itself."""
    policy = re.search(
        r'<meta http-equiv="Content-Security-Policy".*?>', html.document(fakes.run())
    )
    assert policy
    raw = HOSTILE.encode("utf-8", "replace").decode()
    bare, walled = tmp_path / "bare.html", tmp_path / "walled.html"
    bare.write_text(f"<meta charset=utf-8><title>safe</title>{raw}")
    walled.write_text(f"<meta charset=utf-8>{policy[0]}<title>safe</title>{raw}")
    assert (browser.title(bare), browser.title(walled)) == ("owned", "safe")


#: The colour of a page, and how many colours the elements of its pictures and texts have; its
#: pictures; how many rows each filter leaves; what searching and copying do.
PROBE = """
const styles = [...document.querySelectorAll("body, body *")].map((one) => getComputedStyle(one));
const colours = styles.flatMap((one) => [one.fill, one.color, one.backgroundColor]);
const shown = () => (
  [...document.querySelectorAll("tr.row")].filter((row) => row.getClientRects().length)
);
const left = (show) => {
  document.getElementById(`show-${show}`).checked = true;
  return [show, shown().length];
};
const found = {
  page: styles[0].backgroundColor, colours: new Set(colours).size,
  figures: [...document.querySelectorAll("figure:has(svg) figcaption")].map((one) => one.innerText),
  pictures: document.querySelectorAll("svg").length,
  left: Object.fromEntries(["fail", "unknown", "pass", "all"].map(left)),
};
const box = document.getElementById("search");
box.value = "REFUSED state"; box.dispatchEvent(new Event("input"));
document.dispatchEvent(new KeyboardEvent("keydown", {key: "/"}));
found.searched = [
  shown().length, shown()[0].cells[0].textContent, document.getElementById("found").textContent,
  document.activeElement.id, document.querySelector("button.copy").hidden,
];
document.title = JSON.stringify(found);
"""


@pytest.fixture(scope="module", params=["dark", "light"])
def probed(request: pytest.FixtureRequest, browser: Browser) -> dict[str, Any]:
    """What ``PROBE`` finds in a page from a file, and the scheme that the reader prefers."""
    prefers = f"--blink-settings=preferredColorScheme={['dark', 'light'].index(request.param)}"
    found = json.loads(browser.probed(html.document(fakes.one_of_each()), PROBE, prefers))
    return {"scheme": request.param, **found}


def test_the_page_is_painted_light_and_dark(probed: dict[str, Any]) -> None:
    pages = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 26)"}
    assert probed["page"] == pages[probed["scheme"]]
    assert probed["colours"] > 12


def test_pictures_are_in_the_page(probed: dict[str, Any]) -> None:
    assert probed["figures"] == ["expected", "seen"]
    assert probed["pictures"] == 3  # both sides of a failure, and the machine


def test_the_filter_works_without_a_script(probed: dict[str, Any]) -> None:
    assert probed["left"] == {"all": 3, "fail": 1, "unknown": 1, "pass": 2}


def test_search_and_copying_work_from_a_file(probed: dict[str, Any]) -> None:
    assert probed["searched"] == [1, "state.refused", "3 of 10 entries", "search", False]


#: What of the first cause is seen without scrolling in each frame: headline and replay command.
FIRST_SCREEN = """<script>onload = () => {
const first = ({contentDocument: page}) => {
  const seen = (what) => {
    const box = page.querySelector(what).getBoundingClientRect();
    const {innerWidth: width, innerHeight: height} = page.defaultView;
    return box.top >= 0 && box.bottom <= height && box.left >= 0 && box.right <= width;
  };
  const {scrollWidth, clientWidth} = page.documentElement;
  return {
    headline: seen(".cause h3") && page.querySelector(".cause h3").textContent,
    replay: seen(".cause .replay code") && page.querySelector(".replay code").textContent,
    verdict: seen(".verdict .words"), aside: scrollWidth > clientWidth,
  };
};
document.title = JSON.stringify([...document.querySelectorAll("iframe")].map(first));
}</script>"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Runs with one planted bug on each of three machines. The bugs look different in a report:
    what a kubelet refuses, and which CPUs it gives."""
    folder = tmp_path_factory.mktemp("planted")
    machines = ("1s-1n-8c-smt2", "2s-2n-16c-smt2", "2s-4n-64c-smt2")
    chosen = [word for one in machines for word in ("--machine", one)]
    chosen += ["-k", "crash/ or machine/ or packing/ or state/", "-n", "0"]
    for bug in ("trusts-its-state", "splits-cores"):
        report = ("--report", str(folder / bug))
        here("run", "--subject", f"miniature:{bug}", *chosen, *report, status=1)
    return {one.name: reports.load(one / "result.jsonl") for one in folder.iterdir()}


def test_the_first_screen_names_cause_and_replay_command(
    browser: Browser, planted: dict[str, Run], tmp_path: Path
) -> None:
    headlines = {
        "trusts-its-state": "The kubelet runs, but should have refused to start",
        "splits-cores": (
            "The node differs from the model of 1.36: exclusive CPUs: not the CPUs expected"
        ),
    }
    pages = {bug: escape(html.document(planted[bug])) for bug in headlines}
    cases = [*product(headlines, (DESKTOP, PHONE))]
    frames = [
        f'<iframe width={width} height={height} srcdoc="{pages[bug]}"></iframe>'
        for bug, (width, height) in cases
    ]
    framed = tmp_path / "framed.html"
    framed.write_text(f"<!DOCTYPE html><title>-</title>{''.join(frames)}{FIRST_SCREEN}")
    for (bug, _), seen in zip(cases, json.loads(browser.title(framed)), strict=True):
        assert seen["headline"] == headlines[bug]
        assert seen["replay"].startswith(f"pinproof run --subject miniature:{bug} --machine ")
        assert seen["verdict"]
        assert not seen["aside"]


def test_print_takes_a_page_for_each_cause_and_one_before_several(
    browser: Browser, planted: dict[str, Run], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    for bug, pages in (("trusts-its-state", 1), ("splits-cores", 4)):
        document = html.document(planted[bug])
        causes = document.count('<details class="cause')
        assert pages == (causes + 1 if causes > 1 else 1)
        page.write_text(document)
        assert browser.pages(page, tmp_path / "report.pdf") == pages


def test_print_goes_on_over_pages_where_a_cause_is_longer_than_one(
    browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    steps = [f"apply Guaranteed pod web-{n} (app: 2 CPUs)" for n in range(200)]
    page.write_text(html.document(fakes.run(fakes.result("fail", steps=steps))))
    assert browser.pages(page, tmp_path / "report.pdf") > 1 + 3


#: Every cell of the matrix: what a reader, a style sheet and a link have of it; and what cards say.
UNFOLDED = """onload = () => {
const of = (cell) => [cell.className, cell.textContent, cell.querySelector("a")?.hash ?? ""];
const text = (one) => one.textContent.trim().replace(/\\s+/g, " ");
document.title = JSON.stringify({
  rows: [...document.querySelectorAll("tr.row")].map((row) => [...row.cells].slice(1).map(of)),
  notes: [...document.querySelectorAll("#scenarios .skips")].map(text),
  reasons: [...document.querySelectorAll("#skips .card")].map(text),
  searched: (() => {
    const box = document.getElementById("search");
    box.value = "smt"; box.dispatchEvent(new Event("input"));
    return document.getElementById("found").textContent;
  })(),
});
}"""


#: Where the name of each scenario's source leads.
SOURCES = """onload = () => {
const named = [...document.querySelectorAll("#scenarios .promise a")];
document.title = JSON.stringify(named.map((at) => at.getAttribute("href")));
}"""


def test_the_script_puts_each_link_where_its_source_is_named(browser: Browser) -> None:
    kept = [fakes.result(scenario=name) for name in ("a.one", "a.two")]
    found = json.loads(browser.probed(html.document(fakes.run(*kept)), SOURCES))
    assert found == [one.source_url for one in kept]


def test_the_script_unfolds_cells_and_skips(browser: Browser) -> None:
    """Each cell is a cell, each of one cause leads to its story; each skip says where and why."""
    verdicts = ["pass", "fail", "fail", "skip", "unknown", *["pass"] * 7, "skip"]
    machines = fakes.different(f"m{n:02}" for n in range(len(verdicts)))
    reasons = {"skip": {"reason": "needs SMT"}, "unknown": {"reason": "lost"}}
    run = fakes.run(
        *(
            fakes.result(one, machine=at, **reasons.get(one, {}))
            for one, at in zip(verdicts, machines, strict=True)
        ),
        fakes.result("skip", scenario="pinning.zero", machine=machines[0], reason="needs NUMA"),
    )
    found = json.loads(browser.probed(html.document(run), UNFOLDED))
    story, lost = "#fail-pinning.whole-cores-m01", "#unknown-pinning.whole-cores-m04"
    kept, skipped, empty = ["p", "✓", ""], ["s", "\N{EN DASH}", ""], ["n", "", ""]
    broken, unknown = ["f", "✗", story], ["u", "?", lost]
    assert found == {
        "rows": [
            [kept, broken, broken, skipped, unknown, *[kept] * 7, skipped],
            [skipped, *[empty] * 12],
        ],
        "notes": ["Skipped on m03, m12: needs SMT", "Skipped on m00: needs NUMA"],
        "reasons": [
            "2 \N{MULTIPLICATION SIGN} needs SMT 1 scenario on m03, m12: pinning.whole-cores",
            "1 \N{MULTIPLICATION SIGN} needs NUMA 1 scenario on m00: pinning.zero",
        ],
        "searched": "2 of 19 entries",
    }


#: What a matrix of many columns is in a browser: scrolled aside, filtered, and to a screen reader.
MATRIX = """onload = () => {
const box = document.querySelector(".matrix"), [table] = box.querySelectorAll("table");
box.scrollIntoView();
box.scrollLeft = 500;
const heads = [...table.tHead.rows[0].cells], rows = [...table.querySelectorAll("tr.row")];
const left = (one) => Math.round(one.getBoundingClientRect().left);
const shown = () => rows.filter((row) => row.getClientRects().length).length;
const found = {
  all: shown(),
  skewed: [...rows[0].cells].filter((cell, at) => left(cell) !== left(heads[at])).length,
  name: left(rows[0].cells[0]) - left(box) - box.clientLeft,
};
document.getElementById("show-differs").checked = true;
found.differs = shown();
document.getElementById("show-all").checked = true;
const drawn = (row) => row.cells[1].checkVisibility({contentVisibilityAuto: true});
let looks = 0;
const look = () => {
  if (!drawn(rows[0]) && ++looks < 100) return setTimeout(look, 20);
  found.drawn = [drawn(rows[0]), drawn(rows.at(-1))];
  const parts = [table, rows[0], rows[0].cells[0], rows[0].cells[1], heads[1]];
  found.roles = parts.map((part) => part.computedRole);
  document.title = JSON.stringify(found);
};
requestAnimationFrame(() => setTimeout(look, 100));
}"""


def test_of_a_matrix_of_many_columns_only_the_rows_near_the_screen_are_laid_out(
    browser: Browser,
) -> None:
    """It stays a table: columns under their heads, names in sight, filter and roles."""
    document = html.document(fakes.nodes(40, 130, alike=False))
    blink = "--enable-blink-features=ComputedAccessibilityInfo"
    found = browser.probed(document, MATRIX, "--virtual-time-budget=5000", blink)
    assert json.loads(found) == {
        "all": 130,
        "skewed": 0,
        "name": 0,
        "roles": ["table", "row", "rowheader", "cell", "columnheader"],
        "differs": 36,
        "drawn": [True, False],
    }


def test_on_paper_a_decisive_step_is_beside_the_one_before_it(
    browser: Browser, tmp_path: Path
) -> None:
    """Wherever a page ends; causes follow one another, so that no page is left empty."""
    failed = [
        fakes.result(
            "fail",
            scenario=f"area/scenario-{number}",
            failure=fakes.failure(rule=f"Promise {'abcdefghijklmno'[number]}"),
            steps=[f"apply pod p{number}n{step}e" for step in range(9 + number)],
        )
        for number in range(15)
    ]
    page = tmp_path / "report.html"
    page.write_text(html.document(fakes.run(*failed)))
    texts = browser.texts(page, tmp_path / "report.pdf")
    for number in range(15):
        last = 8 + number
        (place,) = [text for text in texts if f"p{number}n{last}e" in text]
        assert f"p{number}n{last - 1}e" in place
    assert min(len(text) for text in texts[1:-1]) > 300
