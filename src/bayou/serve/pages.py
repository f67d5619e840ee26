"""Web pages: the live page, and one to try requests. They load nothing from other sites."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from bayou import __version__
from bayou.serve.http_request import Response


@cache
def page(name: str) -> Response:
    """Return a page: "live", or "docs", which describes every request, with a form to try it."""
    style = _own("page.css", "bayou.report") + _own("pages.css")
    script = _own(f"{name}.js")
    filled = {"STYLE": style, "SCRIPT": script, "VERSION": __version__}
    text = _own(f"{name}.html")
    for key, value in filled.items():
        text = text.replace(f"<!--{key}-->", value)
    policy = f"default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src '{_digest(script)}'"
    policy += "; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    head = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
    return Response(text.encode(), [(name.encode(), value.encode()) for name, value in head.items()])


def _own(name: str, package: str = "bayou.serve") -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
