"""Bodies cut into rows."""

import pytest

from bayou.serve.log import JSON, VW
from bayou.serve.request_bodies import LONG_BODY_BYTES, lines_of

ROW = b'{"a": 1, "text": "something that takes room"}'
LONG_BODY = [ROW] * (LONG_BODY_BYTES // len(ROW) + 1)


@pytest.mark.parametrize("between", [b"\n", b"\r\n", b"\n \t\n", b"\n\n"])
@pytest.mark.parametrize("behind", [b"", b"\n", b"\r\n", b"\n \n"])
def test_a_long_body_has_the_same_rows_as_a_short_one(between, behind):
    short, _ = lines_of(between.join(LONG_BODY[:3]) + behind, JSON, True, 10_000)
    lines, single = lines_of(between.join(LONG_BODY) + behind, JSON, True, 10_000)
    assert not single
    assert len(lines) == len(LONG_BODY)
    assert [line.strip() for line in lines] == LONG_BODY
    assert [line.strip() for line in short] == LONG_BODY[:3]


@pytest.mark.parametrize("form", [JSON, VW])
def test_a_long_body_without_rows_has_none(form):
    for blank in (b"\n", b" ", b" \n"):
        lines, _ = lines_of(blank * LONG_BODY_BYTES * 2, form, True, 10)
        assert not lines
