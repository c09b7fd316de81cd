# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The status page of a real spind, in a real browser."""

import os
import pathlib
import re
import signal
import sys

import pytest
from playwright.sync_api import expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SPIN_BUILD_DIR", ROOT / "build")) / "bin"
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from engine import Engine  # noqa: E402
from spind import Spind  # noqa: E402


@pytest.fixture
def spind():
    running = Spind(BIN / "spind")
    yield running
    running.clean_up()


@pytest.fixture
def engine(spind):
    running = Engine(BIN / "scripted_engine", spind.socket, model_name="<b>model</b>", layers=3, topk=256, max_slots=16384, audit_every=4, sparsity=0.5)
    running.ready()
    running.open("a", 6400)
    yield running
    running.clean_up()


@pytest.fixture
def open_page(browser, spind):
    """Opens the page; whatever it complains of, or asks of anyone else, fails the test."""
    pages, problems = [], []

    def do(**options):
        page = browser.new_page(**options)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if not request.url.startswith((f"http://{spind.admin}/", "data:")) else None)
        page.goto(f"http://{spind.admin}/")
        pages.append(page)
        return page

    yield do
    for page in pages:
        page.close()
    assert not problems


def tile(page, name):
    return page.locator(f"[id='tile-{name}'] .value")


def test_tells_that_nobody_is_connected(open_page):
    page = open_page()
    expect(page.get_by_role("status")).to_have_text("healthy")
    expect(page.get_by_text("No engine is connected.")).to_be_visible()
    expect(tile(page, "Requests")).to_have_text("0")
    expect(tile(page, "Sparsity now")).to_have_text("idle")


def test_tells_why_spind_does_not_serve_until_it_does(browser, tmp_path):
    spind = Spind(BIN / "spind", "--stay-up", shm_dir=tmp_path / "later", serves=False)
    page = browser.new_page()
    page.goto(f"http://{spind.admin}/")
    expect(page.get_by_role("status")).to_have_text("not serving (slab)")
    expect(page.get_by_text("spind tries again by itself")).to_be_visible()
    expect(page.get_by_text(f"{tmp_path}/later")).to_be_visible()
    assert page.evaluate(CONTRAST) == [] and not page.locator("#numbers").is_visible()
    (tmp_path / "later").mkdir()
    expect(page.get_by_role("status")).to_have_text("healthy", timeout=20000)
    expect(page.locator("#failure")).to_be_hidden()
    page.close()
    spind.clean_up()


def test_follows_a_running_engine_without_reload(open_page, engine):
    page = open_page()
    page.evaluate("window.sameDocument = true")
    engine.steps(40)
    engine.steps(40)
    expect(tile(page, "Sparsity now")).to_have_text(re.compile(r"^[34]\d\.\d %$"), timeout=10000)
    expect(tile(page, "Top-K missed")).to_have_text(re.compile(r"^\d+\.\d\d %$"))
    expect(tile(page, "Requests")).to_have_text("1")
    expect(page.locator("#layers tbody tr")).to_have_count(3)
    expect(page.locator("#fallbacks tbody tr")).to_have_count(1)  # cold
    engine.open("b", 6400)
    expect(tile(page, "Requests")).to_have_text("2")
    engine.quit()
    expect(page.get_by_text("No engine is connected.")).to_be_visible()
    assert page.evaluate("window.sameDocument")


def test_names_of_others_are_text_and_not_markup(open_page, engine):
    page = open_page()
    expect(page.locator("#sessions tbody th")).to_have_text("<b>model</b>")
    assert page.locator("#sessions b").count() == 0


def test_tells_when_spind_does_not_answer_and_when_it_does_again(open_page, spind):
    page = open_page()
    expect(page.get_by_role("status")).to_have_text("healthy")
    spind.signal(signal.SIGSTOP)
    expect(page.get_by_role("status")).to_contain_text("does not answer", timeout=15000)
    spind.signal(signal.SIGCONT)
    expect(page.get_by_role("status")).to_have_text("healthy", timeout=15000)


def test_can_be_paused_by_keyboard(open_page):
    page = open_page()
    expect(page.get_by_role("status")).to_have_text("healthy")
    page.keyboard.press("Tab")
    button = page.get_by_role("button", name="Pause")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    before = page.locator("#where").inner_text()
    page.wait_for_timeout(2500)  # more than two looks
    assert page.locator("#where").inner_text() == before
    page.keyboard.press("Enter")
    expect(page.locator("#where")).not_to_have_text(before)


CONTRAST = """() => {
  const luminance = color => { const [r, g, b] = color.match(/[0-9.]+/g).slice(0, 3).map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c) && c !== 'transparent') return c; } return 'rgb(255, 255, 255)'; };
  const low = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(e.tagName)) continue;
    const [a, b] = [luminance(getComputedStyle(e).color), luminance(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) low.push(e.textContent);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_is_readable(open_page, engine, scheme, width):
    engine.steps(8)
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    expect(page.locator("#layers tbody tr")).to_have_count(3)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "only tables scroll sideways"
    assert page.evaluate("document.documentElement.lang") == "en"
    assert [page.locator(f"h{level}").count() for level in (1, 2)] == [1, 4]
    for table in page.locator("table").all():
        assert table.locator("caption").count() == 1 and table.locator("thead th[scope=col]").count() > 1
        assert table.locator("tbody tr").count() == table.locator("tbody th[scope=row]").count()
    assert all(region.get_attribute("aria-labelledby") for region in page.locator("[role=region]").all())


def test_is_one_page_that_says_so(spind):
    status, body = spind.get("/")
    assert status == 200 and len(body) < 25_000
    assert not re.search(r'(src|href)="(https?:)?//', body)
    assert spind.get("/nothing")[0] == 404
