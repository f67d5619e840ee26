"""Files of every format, spoiled line by line: bayou and an independent reader find the same rows, or both refuse them.

Where bayou is stricter or more lenient on purpose, the rule is in `oracles`.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import re
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bayou import sources
from bayou.recipe.recipe import Recipe
from tests.hostile import oracles
from tests.hostile.counts import Counts, rounds
from tests.hostile.oracles import Row, Unsure
from tests.sources.mutate import mutated
from tests.sources.tables import COLUMNS, NAMES

LINES = 900  # of a file
TABLE = Recipe(kind="table", bits=20, columns=COLUMNS, task="regression")

SVMLIGHT = [
    b"1 3:1 17:0.5 123456:2.25", b"-1 1:1 2:1 3:1 99999999:1", b"0 qid:3 7:-1e-3 # x", b"5:1 6:1", b"+1 2:1 1:3 2:2",
    b"0.5\t3:.5 \t4:5. 2147483646:1e-9", b"1 3:12345678.12345678 40:1e12 41:123456789012345678", b"", b"# nothing",
    b"-1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1 16:1 17:1 18:1 19:1 20:1",
]  # fmt: skip
VW = [
    b"1 |a b c:3 |d e", b"-1 2.5 'tag|user age:37 city=Rome |ad id:77 12 13", b"| x y:0.5", b"1 tag| a:1e-3",
    b"0 1 |u:2 a:1 b:-3 |v:0.5 c d", b"1|a b", b"-1 |page url:http://a.b c:d", b"1 2 |7 8:3 9 010", b"",
    b"1 | a b c d e f g h i j k l m n o p q r s t u v w x y z aa bb cc dd ee ff gg hh",
]  # fmt: skip
CSV = [
    b"1,1,Rome,true,007,1.5,37,11,some words here,x", b"0,2.5,Paris,FALSE,7,-3,17,9.5,Other words,",
    b'1,1,"New York, NY",true,8.0,.5,65,1e1,"he said ""so"", again",z', b"0,0,,,,NA,,?,,", b"true,1,a,b,c,1,2,3,d,e",
    b'1,1,"two\nlines",true,-0,2.5,18.0,10,"a\r\nb",', b"", "0,1,Zürich,ja,é,0,30,12,größer ΑΒΓ,ü".encode(),
]  # fmt: skip
JSON = [
    b'{"y": 1, "w": 2, "city": "Rome", "on": true, "id": 7, "x": 1.5, "age": 37, "size": 11, "said": "some words"}',
    b'{"y": 0, "city": null, "on": false, "id": "007", "x": -3, "age": 17.0, "size": 9.5e0, "said": "A B", "junk": {}}',
    b'{"y": true, "w": 1, "x": null, "said": "\\u00e9 \\ud83d\\ude00", "other": [1, 2], "size": 1e1, "age": 65}', b"",
    b'{"y": 1, "w": 1.0, "city": "a", "city": "b", "on": "TRUE", "id": 1e3, "x": NaN, "age": 9007199254740993}',
]  # fmt: skip


_NUMBERS = [None, 0.0, -0.0, 1.0, 17.0, 2.5, -3.0, 1e300, -1e-300, math.nan, math.inf, -math.inf, 2.0**53, 65.0]
_WORDS = [None, "", "Rome", "TRUE", "a b", "é ΑΒΓ", "NA", " x ", "7", "a\x00b", "word " * 50, '"', "\n"]
_VALUES: dict[str, list[Any]] = {
    "y": [*_NUMBERS, 0.0, 1.0, -1.0] * 2, "w": [None, 0, 1, 2, 1000], "city": _WORDS, "on": [None, True, False],
    "id": [None, 0, -7, 7, 2**53 + 1, -(2**63), 2**63 - 1], "x": _NUMBERS, "age": [None, 0, 17, 18, 65, -(2**31)],
    "size": _NUMBERS, "said": _WORDS, "junk": _NUMBERS,
}  # fmt: skip
_TYPES = {"age": "int32", "id": "int64", "w": "int32", "size": "float32"}


def attack(seconds: float, seed: int) -> Counts:
    """A round is a file of each format."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        compare = _Comparison(counts, Path(folder))
        for number in rounds(seconds):
            for k, check in enumerate(compare.checks):
                check(1000 * seed + len(compare.checks) * number + k)
        compare.close()
    return counts


class _Comparison:
    def __init__(self, counts: Counts, folder: Path) -> None:
        self._counts, self._folder = counts, folder
        self.checks: list[Callable[[int], None]] = [self.svmlight, self.csv, self.tsv, self.json, self.parquet]
        self._wabbit = None
        if importlib.util.find_spec("vowpalwabbit"):
            self._wabbit = oracles.Wabbit(20)
            self.checks.append(self.vw)

    def close(self) -> None:
        if self._wabbit is not None:
            self._wabbit.close()

    def _found(self, name: str, text: bytes, recipe: Recipe, seed: int) -> dict[int, Row]:
        """What bayou finds: {line: row}. Every line is an example, refused and counted, or nothing at all."""
        path = self._folder / name
        if text:
            path.write_bytes(text)
        rows: dict[int, Row] = {}
        format = {".svm": "svmlight"}.get(path.suffix, path.suffix[1:])
        options = {
            "format": format,
            "on_error": "skip",
            "labels": recipe.kind == "table",
            "dtype": "float64",
            "threads": seed % 2,
        }
        try:
            source = sources.open(os.fspath(path), recipe=recipe, **options)
            for batch in source:
                weights, at = batch.weights_or_ones().tolist(), batch.indptr.tolist()
                indices, values = batch.indices.tolist(), batch.values.tolist()
                for k, (line, label) in enumerate(zip(batch.positions.tolist(), batch.labels.tolist(), strict=True)):
                    part = slice(at[k], at[k + 1])
                    rows[line] = label, weights[k], dict(zip(indices[part], values[part], strict=True))
        except Exception:
            self._counts.check(False, f"{name}, seed {seed}: {traceback.format_exc(limit=-3)}")
        self._counts.add("lines", text.count(b"\n"))
        return rows

    def _compare(self, name: str, seed: int, lines: Sequence[bytes], mine: Any, theirs: Any, exact: bool) -> None:
        for line in sorted(mine.keys() | theirs.keys()):
            a, b = mine.get(line), theirs.get(line)
            if a is None or b is None or not oracles.same(a, b, exact):
                said = f"{name}, seed {seed}, line {line}: {lines[line - 1]!r} is {a} to bayou and {b} to the other"
                self._counts.check(False, said)

    # --- formats --------------------------------------------------------------------------------------------------

    def svmlight(self, seed: int) -> None:
        text = mutated(SVMLIGHT, LINES, seed).removeprefix(b"\xef\xbb\xbf")  # which bayou passes over
        lines = text.removesuffix(b"\n").split(b"\n")
        recipe = Recipe(kind="svmlight", bits=31, exact=True, task="regression")
        mine = self._found("a.svm", text, recipe, seed)
        taken = [line for line in sorted(mine) if not _many_digits(lines[line - 1])]
        asked = [oracles.as_scikit_learn_takes_it(lines[line - 1]) for line in taken]
        theirs: dict[int, Row] = {}
        for line, row in zip(taken, oracles.svmlight_rows(asked), strict=True):
            if row is not None:
                label = math.nan if math.isnan(mine[line][0]) else row[0]
                theirs[line] = label, 1.0, row[1]
        self._compare("svmlight", seed, lines, {line: mine[line] for line in taken}, theirs, exact=True)
        for line, content in enumerate(lines, 1):
            if line not in mine and content.partition(b"#")[0].strip(b" \t\r"):
                rule = oracles.svmlight_is_strict_about(content)
                if not rule and next(oracles.svmlight_rows([content])) is not None:
                    self._counts.check(False, f"svmlight, seed {seed}: {content!r} is refused, by no rule")

    def vw(self, seed: int) -> None:
        text = mutated(VW, LINES // 3, seed)
        lines = text.removesuffix(b"\n").split(b"\n")
        mine = self._found("a.vw", text, Recipe(kind="vw", bits=20, task="regression"), seed)
        assert self._wabbit is not None
        theirs = {line: row for line in mine if (row := self._wabbit.row(lines[line - 1])) is not None}
        mine = {line: mine[line] for line in theirs}
        nonzero = {line: (*row[:2], {k: v for k, v in row[2].items() if k in mine[line][2] or abs(v) > 1e-30})
                   for line, row in theirs.items()}  # fmt: skip
        self._compare("vw", seed, lines, mine, nonzero, exact=False)

    def csv(self, seed: int, delimiter: bytes = b",", name: str = "a.csv") -> None:
        lines = [line.replace(b",", delimiter) for line in CSV]
        spoiled = _with_newlines(mutated([line.replace(b"\n", b"\x1e") for line in lines], LINES // 3, seed))
        text = delimiter.join(name.encode() for name in NAMES) + b"\n" + spoiled
        mine = self._found(name, text, TABLE, seed)
        rows = oracles.csv_rows(text, delimiter.decode(), len(NAMES))
        theirs = {line: row for line, cells in rows if (row := oracles.example(TABLE, NAMES, cells)) is not None}
        self._compare(name, seed, text.split(b"\n"), mine, theirs, exact=True)

    def tsv(self, seed: int) -> None:
        self.csv(seed, b"\t", "a.tsv")

    def parquet(self, seed: int) -> None:
        """Strange values in columns of every type, read back by Arrow itself; cut into groups of rows anywhere."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng = random.Random(seed)
        columns = {
            name: pa.array(rng.choices(_VALUES[name], k=LINES // 3), _TYPES.get(name))
            for name in rng.sample(NAMES, len(NAMES))
        }
        path = self._folder / "a.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=rng.randint(1, 400))
        mine = self._found("a.parquet", b"", TABLE, seed)
        read = pq.read_table(path).to_pylist()
        theirs: dict[int, Row] = {}
        for line, found in enumerate(read, 1):
            cells = [oracles.cell_of(found[name]) for name in NAMES]
            if (row := oracles.example(TABLE, NAMES, cells)) is not None:
                theirs[line] = row
        self._counts.add("lines", len(read))
        self._compare("parquet", seed, [repr(found).encode() for found in read], mine, theirs, exact=True)

    def json(self, seed: int) -> None:
        text = mutated(JSON, LINES // 3, seed)
        lines = text.removesuffix(b"\n").split(b"\n")
        mine = self._found("a.jsonl", text, TABLE, seed)
        theirs: dict[int, Row] = {}
        for line, content in enumerate(lines, 1):
            try:
                cells = oracles.json_cells(content, NAMES) if content.strip() else None
            except Unsure:
                mine.pop(line, None)
                continue
            if cells is not None and (row := oracles.example(TABLE, NAMES, cells)) is not None:
                theirs[line] = row
        self._compare("jsonl", seed, lines, mine, theirs, exact=True)


def _many_digits(line: bytes) -> bool:
    """bayou reads the first 19 digits of a number; what comes behind them may change its last bit."""
    return re.search(rb"[\d.]{20}", line) is not None


def _with_newlines(text: bytes) -> bytes:
    return text.replace(b"\x1e", b"\n")
