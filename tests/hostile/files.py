"""Files for hostile command lines: tiny ones of every format, broken ones, and what is no file at all."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayou import sources
from bayou.learners import FTRL, AdaGrad, Marginal

ROWS = 24
EVIL = "\x1b[31m\u202ename"


def make(folder: Path) -> None:
    """Data and models in `folder`, and places that are neither."""
    table = {
        "age": [20 + k for k in range(ROWS)],
        "city": [("oslo", "rome", "lima")[k % 3] for k in range(ROWS)],
        "clicked": [k % 2 for k in range(ROWS)],
    }
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    svm = "".join(f"{2 * (k % 2) - 1} {k % 7}:1 {7 + k % 3}:{k / 10}\n" for k in range(ROWS))
    objects = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    texts = {
        "clicks.csv": "\n".join([",".join(table), *lines, ""]),
        "clicks.tsv": "\n".join([",".join(table), *lines, ""]).replace(",", "\t"),
        "clicks.svm": svm,
        "clicks.vw": "".join(f"{2 * (k % 2) - 1} 'tag{k} | a{k % 5} b:{k / 7} |u v{k % 3}\n" for k in range(ROWS)),
        "clicks.jsonl": "".join(json.dumps(row) + "\n" for row in objects),
        "criteo.txt": "".join("\t".join([str(k % 2), *["3"] * 13, *["ab"] * 26]) + "\n" for k in range(ROWS)),
        "numbers.svm": "".join(f"{k / 3} {k % 7}:1\n" for k in range(ROWS)),
        "grades.csv": "age,grade\n" + "".join(f"{k},{('low', 'mid', 'high')[k % 3]}\n" for k in range(ROWS)),
        "evil.csv": f'"{EVIL}",clicked\n' + f"{EVIL},1\nb,0\n" * 5,
        "one.svm": "1 1:1\n",
        "empty.csv": "",
        "empty.svm": "",
        "header.csv": "age,clicked\n",
        "twice.csv": "a,a,clicked\n1,2,0\n",
        "ragged.csv": "a,clicked\n1\n1,2,3\n4,1\n",
        "typo.svm": "1 3:abc\n-1 1:1\nhello\n",
        "huge.svm": "1 4294967295:1e300 99999999999999999999:1\n-1 1:nan 2:inf\n" + svm,
        "half.jsonl": '{"\\ud800": 1, "clicked": 1}\n{"clicked": 0, "a": [1, {"b": 2}]}\nnull\n{"a"\n',
        "deep.jsonl": '{"a":' * 3000 + "1" + "}" * 3000 + "\n",
        "letter.txt": "Dear all\nthere are no data in here\n",
        "data.html": svm,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    noise = np.random.default_rng(0).integers(0, 256, 3000, dtype=np.uint8).tobytes()
    parquet = pa.table(table)
    pq.write_table(parquet, folder / "clicks.parquet")
    pq.write_table(pa.Table.from_arrays(parquet.columns, ["a", "a", "clicked"]), folder / "twice.parquet")
    whole = (folder / "clicks.parquet").read_bytes()
    zipped = gzip.compress(svm.encode())
    for name, bytes_ in {
        "clicks.svm.gz": zipped,
        "cut.svm.gz": zipped[:-20],
        "binary.csv": noise,
        "wide.csv": texts["clicks.csv"].encode("utf-16"),
        "latin.csv": "größe,clicked\nä,1\nö,0\n".encode("latin-1"),
        "cut.parquet": whole[:-50],
        "bad.parquet": whole[:100] + noise[:60] + whole[160:],
        "clicks.svm.zst": pa.compress(svm.encode(), "zstd", asbytes=True),
        os.fsdecode(b"\xff.svm"): svm.encode(),
    }.items():
        (folder / name).write_bytes(bytes_)
    _models(folder)
    for name in ("folder", "closed"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "closed").chmod(0)
    (folder / "secret.svm").write_text(svm)
    (folder / "secret.svm").chmod(0)
    (folder / "link.svm").symlink_to("clicks.svm")
    (folder / "dangling.svm").symlink_to("out/nowhere.svm")


def _models(folder: Path) -> None:
    for name, kind, file, options in (
        ("table", Marginal, "clicks.csv", {"label": "clicked"}),
        ("other", Marginal, "clicks.csv", {"label": "clicked"}),
        ("text", Marginal, "clicks.svm", {}),
        ("vw", FTRL, "clicks.vw", {}),
        ("adagrad", AdaGrad, "clicks.svm", {}),
    ):
        source = sources.open(str(folder / file), recipe={"bits": 5, **options})
        learner = kind(32)
        for batch in source:
            learner.learn(batch)
        learner.extras = source.extras
        learner.save(folder / f"{name}.bayou")
    Marginal(8).save(folder / "bare.bayou")
    good = (folder / "table.bayou").read_bytes()
    (folder / "cut.bayou").write_bytes(good[:-200])
    (folder / "flipped.bayou").write_bytes(good[:-30] + b"\xff" + good[-29:])
    (folder / "empty.bayou").write_bytes(b"")
