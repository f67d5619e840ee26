"""Formats told by names and by how data begin."""

import pytest

from bayou.core.errors import BadInput
from bayou.sources.formats.registry import detect

CRITEO = b"\t".join([b"0", *[b"1"] * 12, b"", *[b"68fd1e64"] * 26]) + b"\n"


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.svm", b"", "svmlight"),
        ("a.libsvm.gz", b"1 1:1\n", "svmlight"),
        ("a.vw.zst", b"", "vw"),
        ("a.csv", b"a,b\n", "csv"),
        ("a.TSV", b"a\tb\n", "tsv"),
        ("a.tsv.gz", CRITEO, "criteo"),
        ("-", CRITEO, "criteo"),
        ("a.parquet", b"PAR1", "parquet"),
        ("-", b"PAR1\x15", "parquet"),
        ("a.jsonl", b"", "jsonl"),
        ("-", b'{"a": 1}\n', "jsonl"),
        ("-", b"1 3:1 4:2.5\n-1 2:1\n", "svmlight"),
        ("-", b"+1 qid:3 3:1 # x\n", "svmlight"),
        ("a9a.txt", b"-1 3:1 11:1 \n", "svmlight"),
        ("train.dat", b"1 |f a b c:2\n", "vw"),
        ("-", b"1 2.0 'tag|a x:1 |b y\n", "vw"),
        ("-", b"| a b\n", "vw"),
        ("-", b"1 |u url=a,b c\n", "vw"),
        ("-", b"'tag| a,b\n", "vw"),
        ("-", b"age|job,title\n", "csv"),
        ("-", b"age,job\n1,2\n", "csv"),
        ("-", b"age\tjob\n", "tsv"),
        ("-", b"\xef\xbb\xbf1 3:1\n", "svmlight"),
        ("-", b"", "svmlight"),
        ("-", b"1\n", "svmlight"),
        ("-", b"  1 3:1\n", "svmlight"),
        ("-", b"1 3:1.5 12", "svmlight"),  # as far as it was read
        ("-", b"1 3:1.5 12:-", "svmlight"),
        ("-", b"1 |f", "vw"),
        ("-", b"1 2:3 |f", "vw"),
        ("-", b"age of a,job of b", "csv"),
    ],
)
def test_detect(name: str, head: bytes, expected: str) -> None:
    assert detect(name, head).name == expected


LONG = b" ".join(b"%d:10" % k for k in range(14_000))


@pytest.mark.parametrize("end", [b"", b"\n", b" 7", b" 7:1e", b" # so\n"])
def test_a_long_line_is_told_at_once(end: bytes) -> None:
    assert len(LONG) > 100_000
    assert detect("-", b"1 " + LONG + end).name == "svmlight"


@pytest.mark.parametrize(
    "head", [b"1 " + LONG + b" x\n", b"1 " + LONG + b" x", b" " * 100_000 + b"x\n", b"1" * 100_000 + b"x\n"]
)
def test_a_long_line_that_is_nothing_is_told_at_once(head: bytes) -> None:
    with pytest.raises(BadInput, match="--format"):
        detect("-", head)


def test_what_cannot_be_told_is_asked_for() -> None:
    with pytest.raises(BadInput, match="--format"):
        detect("-", b"hello world\n")
