"""Model files that were damaged on their way: each is refused with `BadModel`, or is still the same model, to the bit.

A file whose checksums were made again was changed on purpose. It is refused, too, or makes a learner that predicts
finite numbers; it never ends in another error.
"""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bayou
from bayou import Batch
from bayou.core import model_file, registry
from bayou.core.extras import Counters, Extras, ResumePoint, RoundProgress
from bayou.core.file_fingerprints import FileFingerprint
from bayou.core.state import contents_of
from bayou.recipe.feature_names import NewNames
from bayou.recipe.recipe import Column, Recipe
from tests.hostile.counts import Counts, rounds

WIDTH = 2048  # wide enough to be stored as the rows that are not zero
DENSE = 24
_MORE = {"marginal": {"temper": (0.7, 0.3)}, "bank": {"preset": "slim"}, "variational": {"expectation": "monte-carlo"}}
_STRANGE = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, -0.5, 1e308, "", "x", "1", "F64", "U8", [], [0], [[1]], {}, {"a": 1},
)  # fmt: skip


def stream(seed: int, n_features: int, rows: int = 40) -> Batch:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, rows)
    return Batch.from_arrays(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.minimum(rng.zipf(1.3, lengths.sum()), n_features) - 1,
        rng.normal(size=lengths.sum()),
        labels=rng.choice([0.0, 1.0], rows),
    )


def _extras() -> Extras:
    """All that can travel with a model."""
    columns = (Column("y", "label"), Column("x", "bins", edges=(0.0, 1.5)), Column("z", "numeric", centre=2.0))
    extras = Extras.new(Recipe(kind="table", bits=11, exact=True, columns=columns, label="y", cross=[("x", "z")]))
    text = np.frombuffer(b"onetwo", np.uint8)
    spans = np.array([[-1, -1, 0, 3], [-1, -1, 3, 6]])
    extras.names.add(NewNames(np.uint32([3, 7]), spans, text, text, b"^"))
    extras.numbering.add(np.uint64([11, 12]))
    extras.counters = Counters(examples=9, nonzeros=18, skipped=1, weight=10.0, loss=5.5, runs=2)
    extras.unfinished = ResumePoint(
        [FileFingerprint("/a"), FileFingerprint("/b")], passed=1, passes=3, rows=7, skipped=1, holdout=0.1
    )
    extras.rounds = RoundProgress({"data": "abc", "shards": 3}, (0.5, 0.4), 12, batch=7)
    return extras


def learners() -> dict[str, Any]:
    """One of every kind, taught a little, with all that can travel with it."""
    made = {}
    for record in registry.own_records():
        width = DENSE if record.dense else WIDTH
        learner = record.load()(n_features=width, **_MORE.get(record.name, {}))
        learner.learn(stream(1, width))
        learner.extras = _extras()
        made[record.name] = learner
    return made


def bits(learner: Any) -> tuple[Any, ...]:
    """All that a learner would write, and what it predicts."""
    header, arrays = contents_of(learner)
    predicted = learner.predict(stream(2, learner.n_features))
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}, predicted.expected.tobytes()


# --- damage -----------------------------------------------------------------------------------------------------


def _place(rng: np.random.Generator, content: bytes) -> int:
    """Somewhere in a file: as often in what comes before the numbers as in them."""
    head = 8 + int.from_bytes(content[:8], "little")
    return int(rng.integers(min(head, len(content)) if rng.random() < 0.5 else len(content)))


def _flipped(rng: np.random.Generator, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        damaged[_place(rng, content)] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def _cut(rng: np.random.Generator, content: bytes) -> bytes:
    return content[: _place(rng, content)]


def _grown(rng: np.random.Generator, content: bytes) -> bytes:
    return content + rng.bytes(int(rng.integers(1, 40)))


def _moved(rng: np.random.Generator, content: bytes) -> bytes:
    """A segment taken out, put in twice, put elsewhere, or overwritten."""
    at, size, to = _place(rng, content), int(rng.integers(1, 600)), _place(rng, content)
    segment, rest = content[at : at + size], content[:at] + content[at + size :]
    match rng.integers(4):
        case 0:
            return rest
        case 1:
            return content[:to] + segment + content[to:]
        case 2:
            return rest[:to] + segment + rest[to:]
        case _:
            return content[:to] + bytes(len(segment)) + content[to + len(segment) :]


def _rewritten(rng: np.random.Generator, content: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with another header in front of its numbers."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    edit(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _edit(rng: np.random.Generator, plain: Any) -> Any:
    """A JSON value with something in it removed, added or replaced."""
    if isinstance(plain, dict) and plain and rng.random() < 0.9:
        keys = list(plain)
        key, other = (keys[int(rng.integers(len(keys)))] for _ in range(2))
        match rng.integers(8):
            case 0:
                del plain[key]
            case 1:
                plain[key], plain[other] = plain[other], plain[key]
            case 2:
                plain[key + "x"] = plain[key]
            case _:
                plain[key] = _edit(rng, plain[key])
        return plain
    if isinstance(plain, list) and plain and rng.random() < 0.7:
        k = int(rng.integers(len(plain)))
        plain[k] = _edit(rng, plain[k])
        return plain
    if isinstance(plain, int | float) and rng.random() < 0.3:
        return plain + 1
    return _STRANGE[int(rng.integers(len(_STRANGE)))]


def _said_otherwise(rng: np.random.Generator, content: bytes) -> bytes:
    """The header of the container: types, shapes and places of arrays, or the words about them."""
    return _rewritten(rng, content, lambda header: _edit(rng, header))


def _signed_again(rng: np.random.Generator, content: bytes) -> bytes:
    """Another thing said of the learner, its arrays or what travels with it, and checksums that fit."""

    def edit(header: dict[str, Any]) -> None:
        words = header["__metadata__"]
        part = "sparse" if rng.random() < 0.1 else "header"
        words[part] = json.dumps(_edit(rng, json.loads(words[part])))
        sums = {name: one for name, one in json.loads(words["checksums"]).items() if name}
        words.update(model_file.sign(words, sums))
        if rng.random() < 0.2:
            _edit(rng, header)

    return _rewritten(rng, content, edit)


DAMAGE = (_flipped, _cut, _grown, _moved, _said_otherwise, _signed_again)


def attack(seconds: float, seed: int) -> Counts:
    """A round damages the file of every learner in every way, six times."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.bayou"
        whole = {}
        for name, learner in learners().items():
            learner.save(path)
            whole[name] = (path.read_bytes(), bits(learner))
        for number in rounds(seconds):
            for k, (name, (content, expected)) in enumerate(whole.items()):
                rng = np.random.default_rng([seed, number, k])
                for damage in DAMAGE * 6:
                    damaged = damage(rng, content)
                    path.write_bytes(damaged)
                    wrong = _wrong(path, expected if damage is not _signed_again else None)
                    counts.check(not wrong, f"{name}, {damage.__name__}, seed {seed}, round {number}: {wrong}")
                    counts.add("mutations")
    return counts


def _wrong(path: Path, expected: tuple[Any, ...] | None) -> str:
    """What is wrong with how the file is taken; nothing, most often."""
    try:
        learner = bayou.load(path)
    except bayou.BadModel as error:
        return "" if path.name in str(error) else f"the sentence does not name the file: {error}"
    except Exception:
        return traceback.format_exc(limit=-3)
    try:
        if expected is not None:
            return "" if bits(learner) == expected else "it was read, and is not the model that was written"
        predicted = learner.predict(stream(2, learner.n_features)).expected
        contents_of(learner)
        return "" if np.isfinite(predicted).all() else "it predicts numbers that are not finite"
    except bayou.BadInput:
        return ""  # a learner of fewer features than there were
    except Exception:
        return "after loading: " + traceback.format_exc(limit=-3)
