"""The data that `compare_commits.py` gives to both sides: small files of every format, the same bytes at every run."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np

SITES, DEVICES = 40, ("phone", "tablet", "desktop", "")
WORDS = ("free", "win", "money", "lunch", "meeting", "report", "call", "now", "offer", "price", "team", "thanks")
CLASSES = ("oak", "ash", "elm", "yew")


def write(folder: Path, n_rows: int = 3000, n_new: int = 400, n_many: int = 24_000) -> None:
    """Write all files: `rows.*` to learn, `new.*` to predict, `many.csv` of more rows than one batch has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in {"rows": table(n_rows, seed=1), "new": table(n_new, seed=2)}.items():
        csv = delimited(rows, ",")
        (folder / f"{name}.csv").write_text(csv)
        (folder / f"{name}.tsv").write_text(delimited(rows, "\t"))
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(present(row))}\n" for row in rows))
        (folder / f"{name}.vw").write_text("".join(map(vw_line, rows)))
        (folder / f"{name}.criteo").write_text("".join(map(criteo_line, rows)))
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet", row_group_size=700)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(csv.encode(), mtime=0))
        (folder / f"{name}.csv.zst").write_bytes(pa.compress(csv.encode(), "zstd", asbytes=True))
    for name, n, seed in [("rows", n_rows, 3), ("new", n_new, 4), ("part1", n_rows // 2, 5), ("part2", n_rows // 2, 6)]:
        (folder / f"{name}.svm").write_text(svmlight(n, seed))
    (folder / "many.csv").write_text(delimited(table(n_many, seed=7), ","))


def table(n: int, seed: int) -> list[dict]:
    """Return rows with columns of every role and three labels: y (two classes), kind (four), size (a number)."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(99)
    site_effect, device_effect = truth.normal(0, 1, SITES), truth.normal(0, 0.7, len(DEVICES))
    word_effect, class_effect = truth.normal(0, 0.5, len(WORDS)), truth.normal(0, 1, (SITES, len(CLASSES)))
    rows = []
    for k in range(n):
        age, income = rng.normal(40, 12), math.exp(rng.normal(8, 1.5))
        site, device = min(int(rng.zipf(1.4)), SITES) - 1, int(rng.integers(len(DEVICES)))
        words = rng.integers(0, len(WORDS), rng.integers(0, 9))
        score = 0.05 * (age - 40) + 0.3 * (math.log(income) - 8) + site_effect[site] + device_effect[device]
        score += word_effect[words].sum() + (0.8 if site % 3 == device else -0.2)
        rows.append(
            {
                "age": None if rng.random() < 0.05 else round(age, 1),
                "income": round(income, 2),
                "site": f"s{site}.com",
                "device": DEVICES[device],
                "day": f"2024-{1 + k * 12 // n:02d}-{1 + int(rng.integers(28)):02d}",
                "title": " ".join(WORDS[word] for word in words),
                "w": round(0.5 + rng.random(), 3),
                "y": int(rng.random() < 1 / (1 + math.exp(-score))),
                "kind": CLASSES[int(np.argmax(class_effect[site] + rng.gumbel(size=len(CLASSES))))],
                "size": round(3 + score + rng.normal(), 4),
            }
        )
    return rows


def present(row: dict) -> dict:
    return {name: value for name, value in row.items() if value is not None}


def delimited(rows: list[dict], separator: str) -> str:
    lines = [separator.join(rows[0])]
    lines += [separator.join("" if value is None else str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def vw_line(row: dict) -> str:
    age = "" if row["age"] is None else f" age:{row['age'] / 100}"
    site = f" site={row['site']}" + f" device={row['device']}" * bool(row["device"])
    return f"{2 * row['y'] - 1} {row['w']} |p{age} income:{math.log(row['income']):.4f} |s{site} |t {row['title']}\n"


def criteo_line(row: dict) -> str:
    numbers = ["" if row["age"] is None else str(int(row["age"])), str(int(row["income"])), str(len(row["title"]))]
    words = [row["site"], row["device"], *row["title"].split()[:6]]
    names = [f"{hash_of(word):08x}" if word else "" for word in words]
    return "\t".join([str(row["y"]), *numbers, *[""] * 10, *names, *[""] * (26 - len(names))]) + "\n"


def hash_of(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def svmlight(n: int, seed: int, n_features: int = 300) -> str:
    indptr, indices, values, labels = sparse_rows(n, seed, n_features)
    lines = []
    for k in range(n):
        cut = slice(indptr[k], indptr[k + 1])
        pairs = " ".join(f"{i + 1}:{v:g}" for i, v in zip(indices[cut], values[cut], strict=True))
        lines.append(f"{int(labels[k])} {pairs}\n")
    return "".join(lines)


def sparse_rows(n: int, seed: int, n_features: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return CSR rows (offsets, indices, values) and labels of -1 and 1 drawn from true weights."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(98).normal(0, 1, n_features)
    indptr, indices, values, labels = [0], [], [], []
    for _ in range(n):
        some = np.unique(np.minimum(rng.zipf(1.3, rng.integers(1, 14)), n_features) - 1)
        x = np.where(rng.random(some.size) < 0.7, 1.0, rng.normal(size=some.size).round(3))
        indices.append(some)
        values.append(x)
        indptr.append(indptr[-1] + some.size)
        labels.append(1.0 if rng.random() < 1 / (1 + math.exp(-weights[some] @ x)) else -1.0)
    return np.array(indptr), np.concatenate(indices).astype(np.int32), np.concatenate(values), np.array(labels)
