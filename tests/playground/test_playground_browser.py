"""The playground in a real browser, used as a person uses it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinproof.playground import build
from pinproof.playground.distribution import NotBuilt
from tests.cli.running import here
from tests.support import devtools, lacking
from tests.support.browser import CHROMIUM, DESKTOP, PHONE
from tests.support.devtools import Tab, served, tab

pytestmark = pytest.mark.needs("chromium", "npm")

CONFIG = """\
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,4"
"""
IDLE = "!document.body?.hasAttribute('aria-busy') && document.readyState === 'complete'"
READY = f"{IDLE} && !document.getElementById('shown')?.hidden"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("playground")
    try:
        build.build(folder)
    except NotBuilt as error:
        lacking.skip("pyodide", error)
    with served(folder) as found:
        yield found


@pytest.fixture(scope="module")
def loaded(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """The page after Python was loaded; tests take turns."""
    assert CHROMIUM
    with tab(tmp_path_factory.mktemp("chromium")) as page:
        page.resize(DESKTOP)
        page.open(address)
        page.until(READY)
        yield page


@pytest.fixture
def page(loaded: Tab) -> Tab:
    """The page with a small node, and the first field focused."""
    loaded.resize(DESKTOP)
    for name, value in (("machine", "1s-1n-4c-smt2"), ("config", ""), ("state", ""), ("ran", "")):
        _set(loaded, name, value)
    loaded.evaluate("document.getElementById('machine').onchange()")
    _set(loaded, "release", "1.36")
    _set(loaded, "name", "pod1")
    _set(loaded, "cpu", "2")
    _press(loaded, "#node button.main")
    loaded.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = false; })")
    assert _text(loaded, "error") == ""
    return loaded


def _set(page: Tab, name: str, value: str) -> None:
    page.evaluate(f"document.getElementById('{name}').value = {json.dumps(value)}")


def _press(page: Tab, selector: str) -> None:
    page.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
    page.until(IDLE)


def _text(page: Tab, name: str) -> Any:
    return page.evaluate(f"document.getElementById('{name}').textContent")


def _apply(page: Tab, cpus: str) -> None:
    _set(page, "cpu", cpus)
    _press(page, "#pod button.main")


def _open_link(page: Tab, link: str) -> None:
    """As a person does who pastes another link into the address bar."""
    page.evaluate(f"location.hash = {json.dumps(link)}")
    page.evaluate("new Promise((go) => setTimeout(go, 100))")
    page.until(IDLE)


def test_a_pod_gets_cpus_and_another_is_refused_in_the_kubelets_words(
    page: Tab, tmp_path: Path
) -> None:
    """As simulate says for the same pods."""
    for cpus in ("2", "1.5", "9"):
        _apply(page, cpus)
    words = ("--machine", "1s-1n-4c-smt2", "--pods", "2,1.5,9", "--json")
    said = json.loads(here("simulate", *words, status=0).stdout)
    assert _text(page, "file") == said["state file"]
    refused = said["pods"]["pod3"]
    assert page.evaluate("document.querySelector('#rows .words').textContent") == (
        f"{refused['reason']}: {refused['message']}"
    )
    cells = "[...document.querySelectorAll('#rows tr')].map((row) => row.cells[1].textContent)"
    assert page.evaluate(cells) == ["1,5", "0,2-4,6-7", "rejected"]
    assert page.evaluate("document.querySelector('#picture svg desc').textContent")
    assert "CPU 1: pod1/c" in page.evaluate("document.getElementById('picture').textContent")
    assert _text(page, "name") == ""
    assert page.evaluate("document.getElementById('name').value") == "pod4"


def test_steps_are_taken_and_taken_back(page: Tab) -> None:
    _apply(page, "2")
    for kind in ("kill", "start", "restart", "reboot"):
        _press(page, f"[data-step={kind}]")
    story = "[...document.querySelectorAll('#story > li')].map((one) => one.firstChild.data)"
    assert page.evaluate(story) == [
        "start the kubelet",
        "apply Guaranteed pod pod1 (c: cpu limit 2)",
        "kill the kubelet (SIGKILL)",
        "start the kubelet",
        "stop the kubelet (SIGTERM); start the kubelet",
        "stop the kubelet (SIGTERM); reboot the machine; start the kubelet",
    ]
    for _ in range(3):
        _press(page, "#undo")
    assert "it is down; containers run on" in _text(page, "status")
    assert page.evaluate("document.querySelectorAll('#story > li').length") == 3
    _press(page, "[data-step=start]")
    _press(page, "#rows button")
    assert page.evaluate("document.getElementById('rows').children.length") == 0
    assert page.evaluate("document.activeElement.id") == "containers"


def test_a_link_opens_the_same_story(page: Tab, address: str) -> None:
    """Also in a page that is loaded anew, as where it was sent to another person."""
    _set(page, "config", CONFIG)
    _press(page, "[data-step=configure]")
    _apply(page, "2")
    _press(page, "[data-step=kill]")
    link = page.evaluate("location.href")
    assert link == page.evaluate("document.getElementById('link').value")
    before = page.evaluate("document.getElementById('results').innerText")
    page.open(link)
    page.until(READY)
    assert page.evaluate("document.getElementById('results').innerText") == before
    assert page.evaluate("document.getElementById('machine').value") == "1s-1n-4c-smt2"
    assert not page.problems


HOSTILE = "<img src=x onerror='document.title=1'><script>document.title=1</script>"


NODE = {"machine": "1s-1n-4c-smt2", "release": "1.36"}
#: Python's own parser of JSON would end the browser's stack.
DEEP = b"[" * 200_000


def _link(shape: object) -> str:
    data = zlib.compress(shape if isinstance(shape, bytes) else json.dumps(shape).encode())
    return "#1." + base64.urlsafe_b64encode(data).decode().rstrip("=")


def _require_no_markup(page: Tab) -> None:
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
    assert page.evaluate("document.title") == "pinproof: playground"


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("#1.AAAA", "the link is damaged: it cannot be unpacked"),
        (f"#{HOSTILE}", "the link does not hold a story of this playground"),
        (_link(DEEP), "the story in the link: nested too deeply"),
        (_link({**NODE, "steps": [["apply", "[" * 90_000]]}), "manifest: nested too deeply"),
        (_link({**NODE, "config": "- " * 9_000}), "KubeletConfiguration: line 1, column 201: nes"),
        (_link({"machine": HOSTILE, "release": "1.36"}), f"there is no machine {HOSTILE!r}: "),
        (_link({**NODE, "steps": [["delete", HOSTILE]]}), f"Delete: no pod {HOSTILE}"),
    ],
)
def test_a_wrong_link_is_one_line_of_text(link: str, why: str, page: Tab) -> None:
    _apply(page, "2")
    _open_link(page, link)
    assert _text(page, "error").startswith(why)
    _require_no_markup(page)
    assert page.evaluate("document.getElementById('rows').children.length") == 1  # as it was


def test_hostile_text_of_a_story_stays_text(page: Tab) -> None:
    state = json.dumps({"policyName": HOSTILE, "defaultCpuSet": HOSTILE, "checksum": 0})
    _open_link(page, _link({**NODE, "state": state}))
    assert HOSTILE in _text(page, "file")
    assert "it gave up" in _text(page, "status")
    _require_no_markup(page)


def test_wrong_input_is_one_line(page: Tab) -> None:
    _set(page, "manifest", "kind: Pod\n")
    _press(page, "[data-step=apply]")
    assert _text(page, "error").startswith("manifest: document 1: metadata: missing")


def test_a_wrong_state_file_is_refused_by_the_kubelet(page: Tab) -> None:
    _set(page, "state", "junk")
    _press(page, "#node button.main")
    assert "it gave up with exit status 1: could not restore state from checkpoint: " in (
        _text(page, "status")
    )
    assert _text(page, "file") == "junk"
    assert "to recover: drain the node" in _text(page, "status")


def test_a_python_that_breaks_is_started_anew(page: Tab) -> None:
    """The story goes on as if nothing had been asked."""
    _apply(page, "2")
    page.evaluate("""
        const {postMessage} = Worker.prototype;
        Worker.prototype.postMessage = function ({id}) {
            Worker.prototype.postMessage = postMessage;
            this.onmessage({data: {id, failed: "Traceback\\nRangeError: no more stack\\n"}});
        };""")
    _apply(page, "2")
    assert _text(page, "error") == "the model failed: RangeError: no more stack"
    _apply(page, "2")
    assert _text(page, "error") == ""
    assert page.evaluate("document.querySelectorAll('#story > li').length") == 3


def test_a_page_without_its_files_says_so_in_one_line(tmp_path: Path) -> None:
    folder = Path(build.__file__).with_name("page")
    with served(folder) as address, tab(tmp_path) as bare:
        bare.open(address)
        assert bare.until("document.getElementById('error')?.textContent") == (
            "choices.json cannot be loaded: HTTP status 404"
        )


@pytest.mark.parametrize("times", [1, 2])
def test_a_browser_that_ends_at_its_start_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Its second end is an error that tells how it ended."""
    ends = tmp_path / "ends"
    starter = tmp_path / "starter"
    starter.write_text(
        f'#!/bin/sh\n[ $(cat {ends} | wc -l) -lt {times} ] || exec {CHROMIUM} "$@"\n'
        f"echo one >> {ends}; echo no memory is left; exit 3\n"
    )
    starter.chmod(0o755)
    ends.touch()
    monkeypatch.setattr(devtools, "CHROMIUM", str(starter))
    if times == 1:
        with tab(tmp_path) as page:
            assert page.evaluate("1 + 1") == 2
    else:
        with pytest.raises(BrokenPipeError) as ended, tab(tmp_path):
            pass
        (note,) = ended.value.__notes__
        assert note == "the browser ended with exit status 3: no memory is left\n"


def test_a_captured_node_goes_on_as_it_was(page: Tab, node7: Path) -> None:
    """With its machine, release, settings, state file and pods; and its link has all of it."""
    data = base64.b64encode(node7.read_bytes()).decode()
    page.evaluate(f"""
        const bytes = Uint8Array.from(atob("{data}"), (one) => one.charCodeAt());
        const chosen = new DataTransfer(), field = document.getElementById("capture");
        chosen.items.add(new File([bytes], "node7.tar.xz"));
        document.getElementById("machine").value = "another machine…";
        field.files = chosen.files;
        field.onchange();""")
    page.until(f"{IDLE} && document.getElementById('totals').textContent.startsWith('node7: ')")
    assert _text(page, "status").startswith("kubelet 1.35 with policy static, reservedSystemCPUs 0")
    assert page.evaluate("document.querySelector('#rows td').textContent") == "web/c: 2"
    link = page.evaluate("location.hash")
    _press(page, "#pod button.main")
    _open_link(page, link)
    assert _text(page, "totals").startswith("node7: ")
    assert page.evaluate("document.getElementById('rows').children.length") == 1


def test_the_form_writes_a_configuration(page: Tab) -> None:
    page.evaluate("""
        document.querySelector("#options input").click();
        document.getElementById("topology").value = "restricted";
        document.getElementById("topology").onchange();
    """)
    _press(page, "#node button.main")
    assert _text(page, "status") == (
        "kubelet 1.36 with policy static, reservedSystemCPUs 0,4, option full-pcpus-only=true, "
        "Topology Manager restricted: it runs"
    )
    page.evaluate("document.querySelector('#options input').click()")


def test_everything_is_reached_by_keyboard_and_has_a_name(page: Tab) -> None:
    """From the machine to the pod by Tab alone; Enter in a field of the pod applies it."""
    page.evaluate("document.getElementById('machine').focus()")
    seen = []
    for _ in range(6):
        page.press("Tab")
        seen.append(
            page.evaluate("document.activeElement.id || document.activeElement.textContent")
        )
    assert seen == [
        "release", "Kubelet configuration", "State file", "Start this node anew", "name", "cpu",
    ]  # fmt: skip
    page.type("1+1")
    page.press("Enter")
    page.until("document.getElementById('rows').children.length === 2")
    nameless = page.evaluate("""
        [...document.querySelectorAll("input, select, textarea, button, [tabindex]")]
        .filter((one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim())
        .map((one) => one.outerHTML)""")
    assert nameless == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE, (320, 640)])
def test_nothing_is_wider_than_the_window(size: tuple[int, int], page: Tab) -> None:
    """With every part open, a large machine and a long refusal."""
    page.resize(size)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    _set(page, "machine", "2s-2n-192c-smt2-l3x12")
    _press(page, "#node button.main")
    _apply(page, "900")
    _press(page, "[data-step=kill]")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0
    assert page.evaluate("innerWidth") == size[0]


#: Each text whose contrast is too low, with its element.
CONTRAST = """(() => {
  const of = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = of(colour).slice(0, 3).map((part) => part / 255)
      .map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (of(colour)[3] !== 0) return colour;
    }
  };
  const own = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const texts = [...document.querySelectorAll("body *")].filter((one) =>
    !one.closest("svg") && !one.disabled && one.checkVisibility() && own(one));
  return texts.map((one) => {
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
    return [(a + .05) / (b + .05), one.outerHTML.slice(0, 80)];
  }).filter(([ratio]) => ratio < 4.5);
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out(dark: bool, page: Tab) -> None:
    """WCAG 2.2 level AA: a contrast of 4.5, errors and refusals included."""
    page.resize(DESKTOP, dark=dark)
    _apply(page, "9")
    _open_link(page, "#1.AAAA")
    assert page.evaluate(CONTRAST) == []
