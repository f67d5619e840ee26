"""Registry of data formats: one record per format, with all that the rest of the code needs to know about it.

    record = detect("clicks.csv.gz", first_bytes)
    reader = record.open_reader(files, extras, labels=True, dtype="float32")

To add a format, write its reader and a record here; nothing else lists formats. Records name modules as text and import
them when they are used, so that the command's help can be shown without them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bayou.core.arrow import pa, pq
from bayou.core.errors import BadInput
from bayou.core.spelling import option
from bayou.sources.formats import sniffing
from bayou.sources.formats.sniffing import Head

if TYPE_CHECKING:
    from bayou.core.extras import Extras
    from bayou.sources.reading.reader import Reader

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Body:
    """Description of a format as the body of a request to a server.

    A text body has one row per line; a `binary` one is read as a whole.
    """

    code: int  # stored in server logs: never changes, and is never reused for another format
    title: str
    media_types: tuple[str, ...]  # Content-Types that the server's description lists
    kinds: tuple[str, ...]  # kinds of recipes whose models accept such bodies
    other_types: tuple[str, ...] = ()  # Content-Types that are accepted as well
    binary: bool = False
    samples: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # rows to try a parser on, by kind

    @property
    def description(self) -> str:
        return f"{self.title} ({', '.join(self.media_types)})"


class Format(NamedTuple):
    """Record of a data format. Paths are "module:name".

    A reader is called with the data, `Extras`, `labels` and `dtype`, a parser with `Extras`, `labels`, `dtype`, `tags`
    and `groups`. A format that has only a parser is read in blocks of lines (`TextReader`).

    >>> find("csv").kinds, [record.name for record in RECORDS if record.body is not None]
    (('table',), ['svmlight', 'vw', 'jsonl', 'arrow'])
    """

    name: str  # as in --format
    title: str
    readers: Mapping[str, str] = _NOTHING  # path of the reader, by the kind of recipe
    parsers: Mapping[str, str] = _NOTHING  # path of the parser of text, by the kind of recipe
    reader_options: Mapping[str, Any] = _NOTHING
    suffixes: tuple[str, ...] = ()
    sniff: Callable[[Head], bool] = sniffing.never  # whether data begin like this format; tried in the records' order
    sniff_first: bool = False  # whether sniffing takes precedence over the file's name
    can_be_empty: bool = False  # whether empty data are read as this format, if the recipe's kind is the first of it
    in_files: bool = True  # whether --format can name it
    samples: Callable[[], Sequence[bytes]] | None = None  # small files that exercise all of its kernels
    record_batches: str | None = None  # path of an iterable of record batches with all columns of files
    body: Body | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Recipe kinds that can read this format; data without a recipe get the first."""
        return tuple(dict.fromkeys((*self.readers, *self.parsers)))

    def open_reader(self, data: Any, extras: Extras, *, labels: bool, dtype: str, tags: bool = False) -> Reader:
        """Return a reader of the data, by the recipe of `extras`."""
        kind = extras.required_recipe.kind
        if kind in self.readers:
            return _load(self.readers[kind])(data, extras, labels=labels, dtype=dtype, **self.reader_options)
        from bayou.sources.reading.reader import TextReader

        return TextReader(data, partial(self.new_parser, extras, labels=labels, dtype=dtype, tags=tags))

    def new_parser(self, extras: Extras, **options: Any) -> Any:
        """Return a parser of blocks of text, by the recipe of `extras`."""
        return _load(self.parsers[extras.required_recipe.kind])(extras, **options)

    def open_record_batches(self, names: list[str]) -> Any:
        """Return an iterable of the files' record batches, which can be iterated over more than once."""
        assert self.record_batches is not None
        return _load(self.record_batches)(names, **self.reader_options)


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _sample_parquet() -> Sequence[bytes]:
    columns = {"size": ["2.5", "", "40", "7"], "city": ["oslo", "rome", "oslo", "bern"], "clicked": [1, 0, 0, 1]}
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file)
    return (file.getvalue().to_pybytes(),)


_HERE = "bayou.sources.formats"


def _delimited(name: str, title: str, **fields: Any) -> Format:
    readers = {"table": f"{_HERE}.delimited.reader:DelimitedReader"}
    batches = f"{_HERE}.delimited.reader:DelimitedBatches" if "suffixes" in fields else None  # those with a header
    return Format(name, title, readers=readers, record_batches=batches, reader_options={"format": name}, **fields)


# In the order of help texts, and in which formats are tried on data whose name has no known suffix.
RECORDS = (
    Format(
        "svmlight",
        "svmlight text",
        parsers={"svmlight": f"{_HERE}.svmlight:new_parser"},
        suffixes=("svm", "svmlight", "libsvm"),
        sniff=sniffing.is_svmlight,
        can_be_empty=True,
        samples=lambda: (b"1 1:2.5 7:1\n0 1:0 7:1\n0 1:40 7:1\n1 1:7 7:1\n",),
        body=Body(2, "svmlight text", ("text/x-svmlight",), ("svmlight",), samples={"svmlight": (b"1 1:1",)}),
    ),
    Format(
        "vw",
        "VW text",
        parsers={"vw": f"{_HERE}.vw.reader:new_parser"},
        suffixes=("vw",),
        sniff=sniffing.is_vw,
        can_be_empty=True,
        samples=lambda: (
            b"1 'row |a size:2.5 oslo |b oslo\n-1 'row |a size:0 rome |b rome\n"
            b"-1 'row |a size:40 oslo |b oslo\n1 'row |a size:7 bern |b bern\n",
        ),
        body=Body(1, "VW text", ("text/x-vw",), ("vw",), samples={"vw": (b"1 |a b:2 c",)}),
    ),
    _delimited(
        "csv",
        "CSV",
        suffixes=("csv",),
        sniff=sniffing.is_csv,
        # Cells that are empty, integers, fractions and words; text without quotes is split by a separate kernel.
        samples=lambda: (
            b"size,city,clicked\n2.5,oslo,1\n,rome,0\n40,oslo,0\n7,bern,1\n",
            b'size,city,clicked\n2.5,"oslo",1\n,"rome",0\n40,"oslo",0\n7,"bern",1\n',
        ),
    ),
    _delimited("tsv", "TSV", suffixes=("tsv",), sniff=sniffing.is_tsv),
    _delimited(
        "criteo",
        "Criteo",
        sniff=sniffing.is_criteo,
        sniff_first=True,  # without a header it cannot be read as a plain table
    ),
    Format(
        "parquet",
        "Parquet",
        readers={"table": f"{_HERE}.arrow.parquet:ParquetReader"},
        suffixes=("parquet", "pq"),
        sniff=sniffing.is_parquet,
        sniff_first=True,
        samples=_sample_parquet,
        record_batches=f"{_HERE}.arrow.parquet:ParquetBatches",
    ),
    Format(
        "jsonl",
        "JSON lines",
        readers={"table": f"{_HERE}.jsonl:JsonReader"},
        parsers={"table": f"{_HERE}.jsonl:new_parser", "rows": "bayou.sources.rows.json_rows:new_parser"},
        suffixes=("jsonl", "ndjson", "json"),
        sniff=sniffing.is_jsonl,
        can_be_empty=True,
        samples=lambda: (
            b'{"size": 2.5, "city": "oslo", "clicked": 1}\n{"size": null, "city": "rome", "clicked": 0}\n'
            b'{"size": 40, "city": "oslo", "clicked": 0}\n{"size": 7, "city": "bern", "clicked": 1}\n',
        ),
        body=Body(
            0,
            "JSON rows",
            ("application/json", "application/x-ndjson"),
            ("rows", "table"),
            other_types=("application/ndjson", "application/jsonl"),
            samples={
                "rows": (b'{"a":1,"b":"c","label":1}', rb'{"\u0061":1,"b":"c","label":1}', rb'{"\u0061":1,"label":1}'),
                "table": (b"{}",),
            },
        ),
    ),
    Format(
        "arrow",
        "Arrow",
        readers={"table": f"{_HERE}.arrow.reader:ArrowReader"},
        in_files=False,
        body=Body(3, "an Arrow stream", ("application/vnd.apache.arrow.stream",), ("rows", "table"), binary=True),
    ),
)
_BY_NAME = {record.name: record for record in RECORDS}
_BY_SUFFIX = {suffix: record for record in RECORDS for suffix in record.suffixes}
FORMATS = ("auto", *(record.name for record in RECORDS if record.in_files))


def find(name: str) -> Format:
    """Return the format of this name."""
    return _BY_NAME[name]


def code_of(name: str) -> int:
    """Return the code of a format's bodies in server logs."""
    body = find(name).body
    assert body is not None
    return body.code


def with_bodies(kind: str | None = None) -> dict[Body, Format]:
    """Return the formats of request bodies, by body in the order of codes, for models with this kind of recipe."""
    by_body = {record.body: record for record in RECORDS if record.body is not None}
    return {body: by_body[body] for body in sorted(by_body, key=lambda body: body.code) if kind in (None, *body.kinds)}


def empty_format(kind: str) -> Format:
    """Return the format that empty data are read as, for recipes of this kind."""
    return next(record for record in RECORDS if record.can_be_empty and kind in record.kinds)


def detect(name: str, start: bytes) -> Format:
    """Return the format of a file, detected from its name and its first bytes."""
    head, by_name = Head.of(start), _by_suffix(name)
    for record in sorted(RECORDS, key=lambda record: not record.sniff_first):
        if (record.sniff_first or by_name is None) and record.sniff(head):
            return record
    if by_name is not None:
        return by_name
    if not head.first:
        return find("svmlight")  # an empty file has no examples in any format
    raise BadInput(
        f"{name}: the format cannot be inferred from the beginning of the data; specify it with {option('format')} "
        f"({', '.join(FORMATS[1:])})."
    )


def _by_suffix(name: str) -> Format | None:
    suffixes = name.lower().rsplit("/", 1)[-1].split(".")
    while len(suffixes) > 1 and suffixes[-1] in ("gz", "zst", "gzip", "zstd"):
        suffixes.pop()
    return _BY_SUFFIX.get(suffixes[-1]) if len(suffixes) > 1 else None
