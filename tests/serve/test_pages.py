"""The live page and the page to try requests, in a real browser, while the server learns."""

import random
import threading

import pytest

from tests import browser
from tests.serve.serving import running

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
        started.served.live.surprising(9.0, NASTY.encode(), 1.0, 0.01)
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
    assert page.value("document.querySelectorAll('#cards > div').length") == 7
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


def test_requests_can_be_tried(chromium, server):
    page = chromium.open(server.server.url + "/docs", width=390, phone=True)
    page.wait("document.documentElement.dataset.ready === 'yes'")
    learn = "document.querySelector('[data-path=\"/learn\"]')"
    page.value(f"{learn}.querySelector('button').click()")
    page.wait(f"{learn}.querySelector('pre').textContent.startsWith('200')")
    assert "probability" in page.value(f"{learn}.querySelector('pre').textContent")
    assert page.value("document.documentElement.scrollWidth") <= 390
    silent(page, server)
