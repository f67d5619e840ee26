"""Formats told by names and by how data begin."""

import importlib
import subprocess
import sys

import pytest

from bayou import sources
from bayou.core.errors import BadInput
from bayou.recipe.recipe import KINDS
from bayou.sources.formats.registry import RECORDS, detect, empty_format, with_bodies

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
    with pytest.raises(BadInput, match="format="):
        detect("-", head)


def test_what_cannot_be_told_is_asked_for() -> None:
    with pytest.raises(BadInput, match="format="):
        detect("-", b"hello world\n")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_what_a_record_names_is_there(record):
    paths = [
        *record.readers.values(),
        *record.parsers.values(),
        *([record.record_batches] if record.record_batches else []),
    ]
    for module, _, name in (path.partition(":") for path in paths):
        assert hasattr(importlib.import_module(module), name)
    assert paths
    assert set(record.kinds) <= set(KINDS)


@pytest.mark.parametrize("record", [record for record in RECORDS if record.samples], ids=lambda record: record.name)
def test_samples_begin_like_their_format_and_have_no_bad_line(record, tmp_path):
    for number, sample in enumerate(record.samples()):
        assert detect("-", sample) is record
        path = tmp_path / f"{number}"
        path.write_bytes(sample)
        recipe = {"label": "clicked"} if record.kinds[0] == "table" else None
        assert [len(batch) for batch in sources.open(str(path), recipe=recipe)] == [4]


def test_codes_of_bodies_are_those_of_the_logs_that_servers_have_written():
    assert {record.name: body.code for body, record in with_bodies().items()} == {
        "jsonl": 0, "vw": 1, "svmlight": 2, "arrow": 3,
    }  # fmt: skip
    types = [kind for body in with_bodies() for kind in (*body.media_types, *body.other_types)]
    assert len(types) == len(set(types))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_recipe_has_a_format_for_nothing_and_a_body_with_samples(kind):
    assert kind in empty_format(kind).kinds
    body, record = next(iter(with_bodies(kind).items()))
    assert body.samples[kind]
    assert kind in record.parsers


def test_the_list_of_formats_loads_no_numpy():
    code = "from bayou.sources.formats.registry import FORMATS; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "numba", "pyarrow"} & set(loaded)
