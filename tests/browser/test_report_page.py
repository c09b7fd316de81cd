# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The page that spinctl eval --report writes, in a real browser."""

import os
import pathlib
import shutil
import subprocess

import pytest
from playwright.sync_api import expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPINCTL = pathlib.Path(os.environ.get("SPIN_BUILD_DIR", ROOT / "build")) / "bin" / "spinctl"
TRACE = ROOT / "testdata" / "traces" / "small-8k.safetensors"
HOSTILE = "<b>x<!--<script>"  # a file's name
CHARTS = ["budgets", "predictors", "layers", "map-all", "map-near"]

# Colours that a chart's canvas shows: an empty one shows one.
COLOURS = """id => {
  const canvas = document.querySelector(`#${id} canvas`), pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
  for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] << 24 | pixels[i + 1] << 16 | pixels[i + 2] << 8 | pixels[i + 3]);
  return seen.size;
}"""


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    second = folder / f"{HOSTILE.replace('/', '')}.safetensors"
    shutil.copy(TRACE, second)
    page = folder / "report.html"
    subprocess.run([SPINCTL, "eval", TRACE, second, "--topk", "128", "--steps", "24", "--study", "signals,budgets", "--report", page], check=True, capture_output=True)
    return page


@pytest.fixture
def open_page(browser, report):
    """Opens the page; whatever it complains of, or asks of anyone else, fails the test."""
    pages, problems = [], []

    def do(**options):
        page = browser.new_page(**options)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("request", lambda request: problems.append(request.url) if not request.url.startswith((report.as_uri()[:30], "data:")) else None)
        page.goto(report.as_uri())
        pages.append(page)
        return page

    yield do
    for page in pages:
        page.close()
    assert not problems


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_draws_every_chart(open_page, scheme, width):
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    for chart in CHARTS:
        assert page.evaluate(COLOURS, chart) > 3, chart
    expect(page.locator("#numbers tbody tr")).to_have_count(11)
    expect(page.locator("#tiles > div")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "only tables scroll sideways"


def test_draws_again_for_other_choices(open_page):
    page = open_page()
    for select, value in (("axis", "value"), ("predictor", "prev_layer"), ("layer", "1")):
        before = page.locator(f"#{'map-all' if select == 'layer' else 'layers'} canvas").screenshot()
        page.select_option(f"#{select}", value)
        assert page.locator(f"#{'map-all' if select == 'layer' else 'layers'} canvas").screenshot() != before, select


def test_names_of_files_are_text_and_not_markup(open_page):
    page = open_page()
    page.select_option("#trace", "1")
    expect(page.locator("#about")).to_contain_text(HOSTILE)
    assert page.locator("b").count() == 0


def test_follows_the_theme_without_reload(open_page):
    page = open_page(color_scheme="light")
    before = page.locator("#predictors canvas").screenshot()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(18, 22, 28)'")
    assert page.locator("#predictors canvas").screenshot() != before


def test_is_one_file(report):
    text = report.read_text()
    head = text[: text.index('<script type="application/json"')]
    assert "http://www.w3.org/2000/svg" in head and head.count("http") == 1  # the icon's namespace
    assert report.stat().st_size < 4_000_000
