"""The report in a real browser: no complaint on the console, every plot drawn, at any width, light and dark."""

import re

import pytest

from bayou.report import write
from tests import browser
from tests.report.runs import ODD, classes, ordinary

pytestmark = pytest.mark.skipif(
    browser.find() is None, reason="no browser: install Chromium, or name one in BAYOU_BROWSER, to open reports in it"
)

DRAWN = "document.documentElement.dataset.drawn !== undefined"
PLOTS = "[...document.querySelectorAll('.plot')]"


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write(path, *ordinary())
    return path


def silent(page, path) -> None:
    assert page.console == []
    assert {address.split(":")[0] for address in page.requests} <= {"file", "blob", "data"}
    assert [address for address in page.requests if address.startswith("file")] == [path.resolve().as_uri()]


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1280, False),
        (390, True),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [(1280, True), (390, False)]),
    ],
)
def test_every_plot_is_drawn_and_fits(chromium, report, width, dark) -> None:
    page = chromium.open(report, width=width, dark=dark, phone=width < 500)
    page.wait(DRAWN)
    assert page.value(f"{PLOTS}.length") == 8
    marks = page.value(f"{PLOTS}.map(plot => plot.querySelectorAll('path.point, path.js-line, .bars path').length)")
    assert all(marks), marks
    assert page.value("document.documentElement.scrollWidth") == width
    sizes = page.value(f"{PLOTS}.map(p => [p.clientWidth, p.querySelector('.main-svg').getBoundingClientRect().width])")
    assert all(drawn <= room for room, drawn in sizes)
    # A dark page has a dark ground and light letters, in the plots too; a light one the other way round.
    lightness = "c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 765"
    ground = page.value(f"({lightness})(getComputedStyle(document.body).backgroundColor)")
    letters = page.value(f"({lightness})(getComputedStyle(document.querySelector('#loss .xtick text')).fill)")
    assert (ground < 0.2 and letters > 0.5) if dark else (ground > 0.8 and letters < 0.5)
    silent(page, report)


def test_a_nasty_name_stays_text(chromium, report) -> None:
    page = chromium.open(report)
    page.wait(DRAWN)
    assert "taken" not in page.value("document.title").split("script")[0]
    assert page.value("document.images.length") == 0
    labels = page.value("[...document.querySelectorAll('#features .ytick text')].map(t => t.textContent)")
    assert labels
    assert all(re.match(r"f\d+=", label) for label in labels)
    assert page.value("document.querySelectorAll('#features .ytick text a').length") == 0
    silent(page, report)


def test_hovering_tells_numbers_and_buttons_change_the_view(chromium, report) -> None:
    page = chromium.open(report)
    page.wait(DRAWN)
    page.value("document.getElementById('lanes').scrollIntoView({block: 'center'})")
    area = "document.querySelector('#lanes .nsewdrag').getBoundingClientRect()"
    page.move(*page.value(f"(r => [r.x + 0.6 * r.width, r.y + 0.5 * r.height])({area})"))
    page.wait("document.querySelector('#lanes .hoverlayer').textContent.includes('scaled 10')")
    filled = "document.querySelectorAll('#lanes .js-fill').length"
    assert page.value(filled) > 0
    page.value("document.querySelector('button[data-figure=lanes][data-view=\"1\"]').click()")
    page.wait(f"{filled} === 0")
    pressed = "[...document.querySelectorAll('button[data-figure=lanes]')].map(b => b.ariaPressed)"
    assert page.value(pressed) == ["false", "true"]
    silent(page, report)


def test_it_follows_a_change_of_mind_and_of_width(chromium, report) -> None:
    page = chromium.open(report)
    page.wait(DRAWN)
    ink = "getComputedStyle(document.querySelector('#loss .xtick text')).fill"
    light = page.value(ink)
    page.prefer(dark=True)
    page.wait(f"{ink} !== '{light}'")
    page.call("Emulation.setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1, mobile=False)
    page.wait("document.querySelector('#loss .main-svg').getBoundingClientRect().width < 700")
    silent(page, report)


def test_it_prints_light_on_paper(chromium, report, tmp_path) -> None:
    page = chromium.open(report, dark=True)
    page.wait(DRAWN)
    page.paper(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    # What is drawn between the two events is what is on the paper.
    page.value("dispatchEvent(new Event('beforeprint'))")
    assert page.value("getComputedStyle(document.documentElement).getPropertyValue('--card')").strip() == "#ffffff"
    page.wait("document.querySelector('#loss .main-svg').getBoundingClientRect().width <= 700")
    page.value("dispatchEvent(new Event('afterprint'))")
    page.wait("document.querySelector('#loss .main-svg').getBoundingClientRect().width > 700")
    silent(page, report)


def test_several_classes_fit_a_phone(chromium, tmp_path) -> None:
    write(tmp_path / "classes.html", *classes(12))
    page = chromium.open(tmp_path / "classes.html", width=390, dark=True, phone=True)
    page.wait(DRAWN)
    assert page.value("document.documentElement.scrollWidth") == 390
    assert page.value("document.querySelectorAll('#confusion .heatmaplayer image').length") == 1
    # Nine small plots, two in a row: the third stands below the first.
    ends = "[...document.querySelectorAll('#class-reliability .bglayer rect')]"
    places = page.value(f"{ends}.map(r => [r.getBoundingClientRect().x, r.getBoundingClientRect().y].map(Math.round))")
    assert len(places) == 9
    assert places[0][1] == places[1][1] < places[2][1]
    assert places[0][0] == places[2][0] < places[1][0]
    silent(page, tmp_path / "classes.html")


def test_what_cannot_be_drawn_leaves_words_and_tables(chromium, report, tmp_path) -> None:
    broken = tmp_path / "broken.html"
    text = report.read_text(encoding="utf-8")
    broken.write_text(text.replace('id="library">', 'id="library">AAAA', 1), encoding="utf-8")
    page = chromium.open(broken)
    page.wait("document.getElementById('notice').textContent.includes('could not be drawn')")
    assert "the log loss is" in page.value("document.getElementById('summary').textContent")


@pytest.mark.long
def test_odd_runs_are_drawn_without_complaint(chromium, tmp_path) -> None:
    for what in (
        "three rows",
        "one row",
        "no row",
        "all positive",
        "no posterior",
        "inclusion",
        "no class",
        "numbers far out",
    ):
        path = tmp_path / f"{what}.html"
        write(path, ODD[what]())
        page = chromium.open(path)
        page.wait(DRAWN)
        assert page.console == [], what
