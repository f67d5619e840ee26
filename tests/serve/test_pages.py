"""The live page and the page to try requests, in a real browser, while the server learns."""

import random
import threading
from time import perf_counter

import pytest

from bayou.serve import service
from bayou.serve.live_stats import LiveStats
from bayou.serve.tokens import Tokens
from tests import browser
from tests.serve.serving import FakeClock, learner, running, token_file

pytestmark = pytest.mark.skipif(
    browser.find() is None, reason="no browser: install Chromium, or name one in BAYOU_BROWSER, to open pages in it"
)
NASTY = "<img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state")) as started:
        started.served.live.add_surprise(9.0, NASTY.encode(), 1.0, 0.01)
        started.post("/learn", [{NASTY: 1.0, "site": NASTY, "label": k % 2} for k in range(30)])
        stop, rng = threading.Event(), random.Random(0)

        def learn():
            k = 0
            while not stop.wait(0.01):
                k += 1
                row = {"age": rng.random(), "site": f"s{rng.randrange(9)}.com"}
                started.post("/learn", row | {"label": int(row["age"] > rng.random())})
                started.post("/predict", row | {"id": f"r{k}"})
                started.post("/label", {"id": f"r{k}", "label": 1})

        thread = threading.Thread(target=learn)
        thread.start()
        yield started
        stop.set()
        thread.join()


def silent(page, server) -> None:
    assert page.console == []
    assert all(address.startswith((server.server.url, "data:")) for address in page.requests), page.requests


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_live_page_follows_what_is_learned(chromium, server, width, dark):
    server.served.owner._looked = 0.0
    page = chromium.open(server.server.url + "/", width=width, dark=dark, phone=width < 500)
    page.wait("document.documentElement.dataset.version > 0")
    before = page.value("Number(document.documentElement.dataset.version)")
    page.wait(f"Number(document.documentElement.dataset.version) > {before}")
    page.wait("document.querySelectorAll('#moved td').length > 0")
    assert page.value("document.querySelectorAll('#cards > div').length") == 12
    assert page.value("document.getElementById('status').className") == "status healthy"
    # What matters is on the first screen, or the first one and a half of a phone.
    bottom = page.value("document.getElementById('cards').getBoundingClientRect().bottom")
    assert bottom <= (800 if width > 500 else 1266)
    assert page.value("document.querySelectorAll('#curve path.line').length") == 1
    assert page.value("document.querySelectorAll('#calibration circle').length") > 0
    assert page.value("document.documentElement.scrollWidth") <= width
    assert "joined" in page.value("document.getElementById('labels').textContent")
    lightness = "c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 765"
    ground = page.value(f"({lightness})(getComputedStyle(document.body).backgroundColor)")
    assert ground < 0.2 if dark else ground > 0.8
    # What users have named is text.
    assert "onerror" in page.value("document.getElementById('surprises').textContent")
    assert page.value("document.images.length") == 0
    assert "taken" not in page.value("document.title")
    silent(page, server)
    page.call("Page.navigate", url="about:blank")


def verdict(page) -> str:
    status, text = (f"document.getElementById('{name}')" for name in ("status", "verdict"))
    return page.value(f"{status}.className + ': ' + {text}.textContent")


def color(page) -> str:
    return page.value("getComputedStyle(document.getElementById('status')).backgroundColor")


def test_the_status_line_says_what_is_wrong(chromium, tmp_path, monkeypatch):
    time = FakeClock()
    monkeypatch.setattr(service, "LiveStats", lambda: LiveStats(time.clock))
    with running(tmp_path) as server:
        server.post("/learn", [{"a": k % 3, "label": k % 2} for k in range(30)])
        time.advance(20.0)
        page = chromium.open(server.server.url + "/")
        page.wait("document.getElementById('status').className === 'status healthy'")
        calm = color(page)
        assert page.value("document.title").startswith("✔ default · Healthy")
        time.advance(300.0)
        server.server.telemetry.clock = lambda: perf_counter() + 320.0
        page.wait("document.getElementById('status').className === 'status idle'")
        assert verdict(page) == "status idle: No requests for 5 min"
        assert "Healthy since" in page.value("document.getElementById('also').textContent")
        server.served.log_damage = f"{NASTY}: restore it; from a copy"
        page.wait("document.getElementById('status').className === 'status failing'")
        assert verdict(page) == f"status failing: {NASTY}"
        assert page.value("document.getElementById('detail').textContent") == "Restore it; from a copy"
        assert page.value("document.images.length") == 0
        assert color(page) != calm
        also = page.value("Array.from(document.querySelectorAll('#also li')).map(one => one.textContent)")
        assert [one.split()[0] for one in also] == ["No"]
        assert page.console == []
    page.wait("document.getElementById('verdict').textContent === 'The server does not answer'")
    assert page.value("document.getElementById('main').className") == "stale"
    time.advance(600.0)
    page.call("Page.navigate", url="about:blank")
    with running(tmp_path) as server:
        page = chromium.open(server.server.url + "/")
        page.wait("document.querySelectorAll('#rate rect.down').length === 1")  # while there was no server
        assert "down" in page.value("document.getElementById('rate').textContent")
        axis = page.value("Array.from(document.querySelectorAll('#rate text')).map(one => one.textContent)")
        assert any(label.startswith("now, ") for label in axis)
        silent(page, server)
        page.call("Page.navigate", url="about:blank")


def test_requests_can_be_tried(chromium, server):
    page = chromium.open(server.server.url + "/docs", width=390, phone=True)
    page.wait("document.documentElement.dataset.ready === 'yes'")
    learn = "document.querySelector('[data-path=\"/learn\"]')"
    page.value(f"{learn}.querySelector('button').click()")
    page.wait(f"{learn}.querySelector('pre').textContent.startsWith('200')")
    assert "probability" in page.value(f"{learn}.querySelector('pre').textContent")
    assert page.value("document.documentElement.scrollWidth") <= 390
    silent(page, server)


def test_the_page_asks_for_a_token_and_then_shows_what_it_may(chromium, tmp_path):
    read, write = "r" * 20, "w" * 20
    tokens = Tokens.of(token_file(tmp_path, f"read {read}", f"write {write}"))
    with running(tmp_path / "state", {"ads": learner(), "spam": learner()}, tokens=tokens) as server:
        server.server.models["spam"].live.add_surprise(9.0, b'{"name": "somebody"}', 1.0, 0.01)
        shown = {}
        for token in (read, write):
            page = chromium.open(server.server.url + "/?model=spam")
            page.value("sessionStorage.clear()")
            page.wait("!document.getElementById('tokens').hidden")
            assert "ads" not in page.value("document.documentElement.outerHTML")
            page.value(f"document.getElementById('token').value = '{token}'")
            page.value("document.getElementById('tokens').requestSubmit()")
            page.wait("document.documentElement?.dataset.version !== undefined")
            assert page.value("document.getElementById('chooser').textContent") == "adsspam"
            assert page.value("document.getElementById('name').textContent") == "spam"
            shown[token] = page.value("document.getElementById('surprises').textContent")
            page.value("sessionStorage.clear()")
            page.call("Page.navigate", url="about:blank")
        assert "somebody" in shown[write]
        assert "scope `write`" in shown[read]
