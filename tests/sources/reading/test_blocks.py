"""Blocks of whole lines from anywhere: files, globs, pipes, compressed or not."""

import gzip
import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.core.errors import BadInput
from bayou.kernels.parse_text import PADDING
from bayou.sources.reading import blocks
from bayou.sources.reading.blocks import BlockLoader, BlockReader, whole_lines
from bayou.sources.reading.open_files import expand


def text_of(files: BlockReader) -> tuple[bytes, list[str]]:
    """All the text, and all troubles; every block is held to its promises on the way."""
    text, troubles = b"", []
    for block in files:
        if block.trouble:
            assert block.size == 0
            troubles.append(block.trouble)
            continue
        assert block.size > 0
        assert block.data[block.size - 1] == 10
        assert len(block.data) >= block.size + PADDING
        assert (block.data[block.size : block.size + PADDING] == 10).all()
        text += block.data[: block.size].tobytes()
    return text, troubles


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


LINES = b"".join(b"%d some line\n" % k for k in range(20_000))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("block_bytes", [64, 4096, 1 << 19])
def test_what_is_read_is_what_was_written(tmp_path, pack, block_bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(pack(LINES))
    files = BlockReader([str(path)], block_bytes=block_bytes)
    assert text_of(files) == (LINES, [])
    assert files.bytes_done == files.bytes_total == path.stat().st_size
    assert text_of(files) == (LINES, [])  # and again


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=30), st.booleans())
def test_any_lines_with_tiny_blocks(tmp_path_factory, lines: list[bytes], final: bool) -> None:
    path = tmp_path_factory.mktemp("r") / "x"
    text = b"\n".join(lines) + (b"\n" if final else b"")
    if text[:4] == b"\x28\xb5\x2f\xfd" or text[:2] == b"\x1f\x8b":
        return
    path.write_bytes(text)
    expected = text.removeprefix(b"\xef\xbb\xbf")
    if expected and not expected.endswith(b"\n"):
        expected += b"\n"
    assert text_of(BlockReader([str(path)], block_bytes=8))[0] == expected


def test_a_byte_order_mark_is_removed(tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbf1 2:3\n")
    assert text_of(BlockReader([str(tmp_path / "x")]))[0] == b"1 2:3\n"


def test_several_files_keep_apart(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"1 last line without newline")
    (tmp_path / "b").write_bytes(b"2\n")
    assert text_of(BlockReader([str(tmp_path / "a"), str(tmp_path / "b")]))[0] == b"1 last line without newline\n2\n"


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_truncated_compression_gives_what_there_is_and_says_so(tmp_path, pack) -> None:
    rng = np.random.default_rng(0)
    text = b"".join(b"%d some line %d\n" % (k, rng.integers(10**9)) for k in range(200_000))
    whole = pack(text)
    path = tmp_path / "x"
    path.write_bytes(whole[: len(whole) * 9 // 10])
    read, troubles = text_of(BlockReader([str(path)]))
    assert len(read) > 0.8 * len(text)
    assert text.startswith(read)  # whole lines, not the one that was cut
    assert len(troubles) == 1
    assert "too early" in troubles[0]


def test_garbage_behind_the_magic_number(tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"\x1f\x8b" + bytes(range(200)))
    text, troubles = text_of(BlockReader([str(tmp_path / "x")]))
    assert text == b""
    assert len(troubles) == 1


def test_a_line_that_is_too_long_is_skipped(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(blocks, "MAX_LINE_BYTES", 1000)
    (tmp_path / "x").write_bytes(b"first\n" + b"x" * 50_000 + b"\nlast\n" + b"y" * 30_000)
    text, troubles = text_of(BlockReader([str(tmp_path / "x")], block_bytes=64))
    assert text == b"first\nlast\n"
    assert len(troubles) == 2
    assert "1,000 bytes" in troubles[0]


def test_a_hundred_megabytes_without_a_newline(tmp_path) -> None:
    with open(tmp_path / "x", "wb") as file:
        for _ in range(100):
            file.write(b"1" * 1_000_000)
        file.write(b"\n1 2:3\n")
    text, troubles = text_of(BlockReader([str(tmp_path / "x")]))
    assert text == b"1 2:3\n"
    assert len(troubles) == 1


def test_the_head_is_read_again(tmp_path) -> None:
    (tmp_path / "x").write_bytes(LINES)
    files = BlockReader([str(tmp_path / "x")])
    assert LINES.startswith(files.head())
    assert files.head() == files.head()
    lines = files.first_lines()
    assert lines.data[: lines.size].tobytes() == LINES[: lines.size]
    assert text_of(files)[0] == LINES


def test_standard_input() -> None:
    code = (
        "from bayou.sources.reading.blocks import BlockReader\n"
        "f = BlockReader(['-']); f.head(); print(sum(b.size for b in f), f.bytes_total, f.may_block)"
    )
    said = subprocess.run([sys.executable, "-c", code], input=LINES, capture_output=True, check=True).stdout
    assert said.split() == [str(len(LINES)).encode(), b"None", b"True"]


def test_a_pipe_gives_what_it_has(tmp_path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    go_on = threading.Event()

    def write() -> None:
        with open(path, "wb", buffering=0) as pipe:
            pipe.write(b"1 2:3\n4")
            go_on.wait(60)
            pipe.write(b"2 5:6\n")

    threading.Thread(target=write, daemon=True).start()
    blocks = iter(BlockReader([str(path)]))
    first = next(blocks)
    assert first.data[: first.size].tobytes() == b"1 2:3\n"  # although the writer has not finished
    go_on.set()
    second = next(blocks)
    assert second.data[: second.size].tobytes() == b"42 5:6\n"


def test_names_and_globs(tmp_path) -> None:
    for name in ("b.svm", "a.svm", "[odd].svm"):
        (tmp_path / name).write_bytes(b"")
    assert expand(str(tmp_path / "?.svm")) == [str(tmp_path / "a.svm"), str(tmp_path / "b.svm")]
    assert expand([tmp_path / "[odd].svm", "-"]) == [str(tmp_path / "[odd].svm"), "-"]
    for wrong, word in (("nothing.svm", "no such file"), ("*.txt", "no file matches"), (".", "folder")):
        with pytest.raises(BadInput, match=word):
            expand(str(tmp_path / wrong))
    with pytest.raises(BadInput, match="no data"):
        expand([])


@given(st.binary(max_size=300))
def test_whole_lines(text: bytes) -> None:
    assert whole_lines(np.frombuffer(text, np.uint8), len(text)) == text.rfind(b"\n") + 1


# --- ParallelMap
# --------------------------------------------------------------------------------------------------------


# --- blocks that are not read -----------------------------------------------------------------------------------------


def test_blocks_grow_from_small_ones_and_those_for_other_processes_stay_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "FIRST_BYTES", 1000)
    monkeypatch.setattr(blocks, "SHARED_BYTES", 2000)
    path = tmp_path / "a.txt"
    path.write_bytes(b"0123456789abcde\n" * 2000)
    files = BlockReader([str(path)] * 2, block_bytes=8000)
    sizes = [block.size for block in files]
    assert sizes[:5] == [992, 2000, 4000, 8000, 8000]
    assert sizes[len(sizes) // 2 :] == sizes[: len(sizes) // 2]  # and the next file begins with small ones again
    shared = [block.size for block in files.unread()]
    assert shared[:3] == [992, 2000, 2000]
    assert sum(shared) == sum(sizes) == 64_000


PIECES = st.sampled_from([b"\n", b"1 2:3\n", b"x" * 30, b"y" * 9, b"\n\n", b"ab\n"])


@given(st.lists(PIECES, max_size=40), st.booleans(), st.integers(4, 40), st.sampled_from([30, 60, 10_000]))
def test_unread_blocks_are_those_that_are_read(tmp_path_factory, pieces, bom, size, longest):
    path = tmp_path_factory.mktemp("unread") / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf" * bom + b"".join(pieces))
    files, texts = BlockReader([str(path)] * 2, block_bytes=size), BlockLoader()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "MAX_LINE_BYTES", longest)
        read = [(block, files.bytes_done) for block in files]
        unread = [(block, files.bytes_done) for block in files.unread()]
    assert [(b.size, b.first, b.trouble, b.lines) for b, _ in unread] == [
        (b.size, b.first, b.trouble, b.lines) for b, _ in read
    ]
    for (mine, done), (theirs, expected) in zip(unread, read, strict=True):
        if mine.trouble is None:
            assert done == expected or longest < 10_000  # how far one reads in search of the end of a long line
            assert mine.unread
            assert mine.offset == theirs.offset
            assert texts.of(mine).tobytes() == theirs.data[: theirs.size + PADDING].tobytes()
            assert texts.lines_before(mine) == path.read_bytes()[: mine.offset].count(b"\n")


def test_a_file_that_has_become_shorter_is_told_of(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 2:3\n" * 100)
    (block,) = BlockReader([str(path)]).unread()
    path.write_bytes(b"1 2:3\n")
    with pytest.raises(BadInput, match="truncated while it was read"):
        BlockLoader().of(block)
