"""The built site in a browser, at the width of a desktop and of a phone: ``tox -e docs``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.browser import DESKTOP, PHONE
from tests.support.devtools import Tab, served, tab

pytestmark = pytest.mark.needs("chromium", "built site")

_TUTORIALS: Final = Path(__file__).parents[2] / "docs/tutorials"
#: One page of each kind, and each tutorial.
PAGES: Final = (
    "",
    "tutorials/",
    *(f"tutorials/{one.stem}/" for one in sorted(_TUTORIALS.glob("*.md"))),
    "how-to/",
    "how-to/advise/",
    "reference/",
    "reference/commands/",
    "reference/commands/run/",
    "reference/exit-statuses/",
    "reference/schemas/certificate/",
    "reference/named-behaviours/",
    "reference/named-behaviours/held-cpus-kept-first/",
    "reference/policy-options/",
    "atlas/",
    "defects/",
    "defects/on-cores-of-different-sizes-busy-or-reserved-cpus-are-given-away/",
    "will-this-hit-me/",
    "playground/",
    "submissions/",
    "submissions/v1.36/pinproof-unmodified-kubelet/",
    "scenarios/packing/whole-core/",
    "machines/",
    "machines/2s-4n-64c-smt2/",
    "tables/kill-matrix/",
)
#: What WCAG 2.1 asks of text (1.4.3); of text that is large, 3.
_LEAST, _LEAST_OF_LARGE = 4.5, 3.0

#: What is wrong with a page in a window of this width: a list of texts. A phone that shows a page
#: that is too wide makes its own ``innerWidth`` larger.
_FAULTS: Final = """((width) => {
  const faults = [];
  if (document.documentElement.scrollWidth > width)
    faults.push(`${document.documentElement.scrollWidth} px wide`);

  const headings = [...document.querySelectorAll("h1,h2,h3,h4,h5,h6")];
  const firsts = headings.filter((one) => one.tagName === "H1");
  if (firsts.length !== 1) faults.push(`${firsts.length} first headings`);
  let before = 0;
  for (const one of headings) {
    const level = Number(one.tagName[1]);
    if (level > before + 1) faults.push(`h${before} is followed by h${level}: ${one.textContent}`);
    before = level;
  }

  const parse = (text) => {
    const [red, green, blue, alpha = 1] = text.match(/[\\d.]+/g).map(Number);
    return [red, green, blue, alpha];
  };
  const over = (top, below) =>
    [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement)
      layers.unshift(parse(getComputedStyle(at).backgroundColor));
    return layers.reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, style) => {
    const below = behind(one);
    const both = [light(over(parse(style.color), below)), light(below)];
    const [low, high] = both.sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const words = (one) =>
    [...one.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
  for (const one of document.querySelectorAll("article *, main > *, main > * *")) {
    const style = getComputedStyle(one);
    const seen = one.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    if (!seen || !words(one) || one.closest("[disabled], .headerlink, svg, option")) continue;
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(one, style);
    if (ratio < (large ? LARGE : LEAST))
      faults.push(`contrast ${ratio.toFixed(2)}: ${one.textContent.trim().slice(0, 40)}`);
  }

  if (document.body.textContent.includes("```")) faults.push("a fence is shown as text");
  return [...new Set(faults)];
})""".replace("LARGE", str(_LEAST_OF_LARGE)).replace("LEAST", str(_LEAST))

#: How far a page's content has moved while it was loaded, as browsers count it; 0.1 is much.
_MOVED: Final = """new Promise((told) => {
  let moved = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) moved += one.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => told(moved), 150);
})"""
_MOST_MOVED: Final = 0.1


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the site."""
    with served(Path(os.environ["PINPROOF_SITE"])) as address:
        yield address


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A page of a browser."""
    with tab(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def _opened(page: Tab, address: str, size: tuple[int, int]) -> None:
    page.resize(size)
    page.open(address)
    page.until(f"location.href === {address!r} && document.readyState === 'complete'")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("place", PAGES, ids=lambda place: place or "home")
def test_a_page_fits_its_window_and_can_be_read(
    site: str, page: Tab, place: str, size: tuple[int, int]
) -> None:
    """Nothing is to be scrolled sideways but tables and commands; headings are in order; text has
    contrast; and nothing jumps while the page is loaded."""
    page.problems.clear()
    _opened(page, site + place, size)
    assert page.evaluate(f"{_FAULTS}({size[0]})") == []
    assert page.evaluate(_MOVED) <= _MOST_MOVED
    assert page.problems == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<h1>a</h1><p style='width: 392px'>b</p>", "392 px wide"),
        ("<h1>a</h1><h1>b</h1>", "2 first headings"),
        ("<h1>a</h1><h3>b</h3>", "h1 is followed by h3: b"),
        ("<h1>a</h1><p style='color: #aaa'>b</p>", "contrast 2.32: b"),
        ("<h1>a</h1><p>```sh</p>", "a fence is shown as text"),
    ],
)
def test_a_fault_of_a_page_is_seen(page: Tab, tmp_path: Path, body: str, fault: str) -> None:
    made = "<!doctype html><meta name=viewport content='width=device-width,initial-scale=1'>"
    made += "<style>body { margin: 0 }</style>"
    (tmp_path / "index.html").write_text(f"{made}<body><article>{body}</article>")
    with served(tmp_path) as address:
        _opened(page, address, PHONE)
        found: Any = page.evaluate(f"{_FAULTS}({PHONE[0]})")
    assert found == [fault]


def test_a_page_that_moves_while_it_is_loaded_is_seen(page: Tab, tmp_path: Path) -> None:
    later = "setTimeout(() => document.body.prepend(document.createElement('hr')), 100)"
    style = "<style>hr { height: 400px }</style>"
    text = f"<!doctype html>{style}<body><h1>a</h1><p>{'b ' * 9000}</p><script>{later}</script>"
    (tmp_path / "index.html").write_text(text)
    with served(tmp_path) as address:
        _opened(page, address, DESKTOP)
        page.until(f"{_MOVED}.then((moved) => moved > {_MOST_MOVED})", 30)


def test_every_table_can_be_scrolled_on_a_phone(site: str, page: Tab) -> None:
    """A wide table has a frame of its own that scrolls."""
    _opened(page, f"{site}atlas/", PHONE)
    wide = """[...document.querySelectorAll("article table")].map((one) => {
        const frame = one.closest(".md-typeset__scrollwrap");
        return [frame.scrollWidth > frame.clientWidth, getComputedStyle(frame).overflowX];
    })"""
    frames: Any = page.until(f"({wide}).length > 2 && {wide}")
    assert [True, "auto"] in frames
    assert {scrolls for _, scrolls in frames} == {"auto"}


def test_the_button_of_a_transcript_copies_its_commands_alone(site: str, page: Tab) -> None:
    """The theme marks what it copies; prompts and outputs are not part of it then."""
    _opened(page, f"{site}tutorials/operator/", DESKTOP)
    copied = """(() => {
        const code = document.querySelector(".highlight code:has(.gp)");
        const shown = code.innerText;
        code.dataset.mdCopying = "";
        return [shown, code.innerText];
    })()"""
    shown, text = page.evaluate(copied)
    commands = ["pinproof capture -o node7", "pinproof draw ./node7.tar.xz"]
    assert [line[2:] for line in shown.splitlines() if line.startswith("$ ")] == commands
    assert [line for line in text.splitlines() if line] == commands
