"""Sources: batches in order, labels by the rule, bad lines named, the same bits with any number of threads."""

import gzip
import os
import subprocess
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from bayou import Batch, sources
from bayou.core.errors import BadInput
from bayou.learners import Marginal
from bayou.sources import Recipe
from tests.sources import slow_svmlight
from tests.sources.mutate import mutated


def write(path, text: bytes) -> str:
    path.write_bytes(text)
    return str(path)


def learned(batches, n_features: int = 2**22) -> bytes:
    learner = Marginal(n_features)
    for batch in batches:
        learner.learn(batch)
    return learner._state.tobytes() + learner._intercept_state.tobytes()


@cache
def random_lines(n: int, seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        features = rng.choice(1000, rng.integers(0, 9), replace=False)
        values = rng.normal(size=len(features))
        lines.append(
            b"%d " % rng.choice([-1, 1]) + b" ".join(b"%d:%.4g" % pair for pair in zip(features, values, strict=True))
        )
    return b"\n".join(lines) + b"\n"


def test_threads_and_blocks_change_no_bit(tmp_path, monkeypatch) -> None:
    path = write(tmp_path / "x.svm", random_lines(5000))
    (zipped := tmp_path / "x.svm.gz").write_bytes(gzip.compress(random_lines(5000)))
    whole = learned(sources.open(path, threads=0))
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 1000)
    for threads in (0, 1, 3):
        assert learned(sources.open(path, threads=threads)) == whole
        assert learned(sources.open(str(zipped), threads=threads)) == whole


def test_rows_lines_and_positions(tmp_path) -> None:
    one = write(tmp_path / "1.svm", b"1 1:1\n\n# nothing\n-1 2:1\n")
    two = write(tmp_path / "2.svm", b"x\n1 3:1")
    source = sources.open([one, two], on_error="skip")
    batches = list(source)
    assert [batch.positions.tolist() for batch in batches] == [[1, 4], [2]]
    assert (source.rows, source.lines, source.skipped) == (3, 6, 1)
    assert source.bad_lines == [f"{two}:1:1: expected a label, a number, at the start of the line."]
    assert source.bytes_done == source.bytes_total == sum(map(os.path.getsize, (one, two)))
    assert [len(batch) for batch in source] == [2, 1]  # another pass
    assert source.skipped == 1


def test_raise_names_file_line_and_column(tmp_path) -> None:
    path = write(tmp_path / "x.svm", b"1 1:1\n1 2:x\n1 3:1\n")
    with pytest.raises(BadInput, match=r"x\.svm:2:5: expected a number after ':'\."):
        list(sources.open(path))


def labels_of(path: str, **options) -> list[float]:
    return np.concatenate([batch.labels for batch in sources.open(path, **options)]).tolist()


def test_label_rules(tmp_path) -> None:
    path = write(tmp_path / "x.svm", b"1 1:1\n2 1:1\n3.5 1:1\n-1 1:1\n")
    assert labels_of(path, recipe={"positive": "2"}) == [-1, 1, -1, -1]
    assert labels_of(path, recipe={"label_above": 1.5}) == [-1, 1, 1, -1]
    assert labels_of(path, recipe={"task": "regression"}) == labels_of(path) == [1, 2, 3.5, -1]
    assert labels_of(path, recipe={"task": "multiclass"}) == [0, 1, 2, 3]
    rarely = write(tmp_path / "y.svm", b"1 1:1\n2 1:1\n-1 1:1\n")
    assert labels_of(rarely, on_error="skip") == [1, -1]
    with pytest.raises(BadInput, match=r":2:1: expected the label 1, 0 or -1, not 2; .*positive="):
        list(sources.open(rarely))
    with pytest.raises(BadInput, match="labels in svmlight data are numbers"):
        sources.open(path, recipe={"positive": "yes"})


def test_zero_and_minus_one_are_not_mixed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 16)
    path = write(tmp_path / "x.svm", b"1 1:1\n0 2:1\n-1 3:1\n1 4:1\n0 5:1\n")
    with pytest.raises(BadInput, match=r"x\.svm:3:1: expected a negative label to be 0, as before .* positive='1'\."):
        list(sources.open(path))
    assert labels_of(path, recipe={"positive": "1"}) == [1, -1, -1, 1, -1]


@pytest.mark.parametrize("threads", [0, 2])
def test_where_bad_lines_are_skipped_both_ways_to_write_a_negative_are_learned_and_it_is_said(
    tmp_path, monkeypatch, threads
) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 16)
    first = write(tmp_path / "x.svm", b"1 1:1\n0 2:1\n1 3:1\n")
    second = write(tmp_path / "y.svm", b"1 4:1\n-1 5:1\n0 6:1\n")
    source = sources.open([first, second], on_error="skip", threads=threads)
    for _ in range(2):  # passes
        assert np.concatenate([batch.labels for batch in source]).tolist() == [1, -1, 1, 1, -1, -1]
        assert (source.skipped, source.bad_lines) == (0, [])
        assert len(source.warnings) == 1
        assert "both 0 and -1" in source.warnings[0]
    assert sources.open(first, on_error="skip").warnings == []


def test_two_other_numbers_are_two_classes(tmp_path) -> None:
    path = write(tmp_path / "x.svm", b"1 1:1\n" * 80 + b"2 2:1\n" * 20)
    source = sources.open(path)
    assert np.concatenate([batch.labels for batch in source]).tolist() == [-1] * 80 + [1] * 20
    assert (source.recipe.negative, source.recipe.positive) == ("1", "2")
    assert "2 (positive) or 1" in source.decided


@pytest.mark.parametrize("threads", [0, 2])
def test_classes_are_numbered_as_they_come(tmp_path, monkeypatch, threads) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 16)
    path = write(tmp_path / "x.svm", b"3 1:1\n1 2:1\n3 1:1\n7.5 1:1\n1 1:1\n9 1:1\n3 2:2\n")
    source = sources.open(path, recipe={"task": "multiclass"}, threads=threads)
    for _ in range(2):  # passes
        assert np.concatenate([batch.labels for batch in source]).tolist() == [0, 1, 0, 2, 1, 3, 0]
        assert source.extras.classes == ["3", "1", "7.5", "9"]
    # A model that knows them numbers other data alike; what it does not know joins, or is nobody where it predicts.
    other = write(tmp_path / "y.svm", b"9 1:1\n4 1:1\n1:1\n3 1:1\n")
    np.testing.assert_array_equal(labels_of(other, extras=source.extras, labels=False), [3, -1, np.nan, 0])
    assert len(source.extras.classes) == 4
    assert labels_of(other, extras=source.extras, on_error="skip") == [3, 4, 0]
    assert source.extras.classes[4:] == ["4"]


@pytest.mark.parametrize("piped", [False, True])
def test_the_first_10_000_rows_decide_also_from_a_pipe(tmp_path, piped) -> None:
    """No more of them, whatever block they are in; and no fewer, as soon as a pipe has shown two classes."""
    text = b"1 1:1\n-1 1:1\n" * 4000
    for more, task in ((b"2 1:1\n" * 1000, "multiclass"), (b"1 1:1\n" * 2000 + b"2 1:1\n" * 1000, "binary")):
        path = write(tmp_path / "x.svm", text + more)
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process:
            data = f"/dev/fd/{process.stdout.fileno()}" if piped else path
            source = sources.open(data, threads=0, on_error="skip")
            assert source.fit_recipe().task == task
            assert sum(map(len, source)) == (9000 if task == "multiclass" else 10_000)


def test_a_pipe_is_asked_for_nothing_where_the_task_is_said() -> None:
    ends = os.pipe()
    os.write(ends[1], b"1 1:1\n-1 1:1\n")
    source = sources.open(f"/dev/fd/{ends[0]}", recipe={"task": "binary"}, threads=1)
    assert source.fit_recipe().task == "binary"  # while more may come
    os.write(ends[1], b"1 2:1\n")
    os.close(ends[1])
    assert sum(len(batch) for batch in source) == 3


def test_unlabelled_rows_can_only_be_predicted(tmp_path) -> None:
    path = write(tmp_path / "x.svm", b"1:1 2:1\n1 1:1\n")
    with pytest.raises(BadInput, match=r":1:1: expected a label\."):
        list(sources.open(path))
    (batch,) = sources.open(path, labels=False)
    assert np.isnan(batch.labels[0])
    assert batch.labels[1] == 1


def test_wrong_kinds_are_refused(tmp_path) -> None:
    path = write(tmp_path / "x.svm", b"1 1:1\n")
    with pytest.raises(BadInput, match="needs a recipe for svmlight data, but this one is for vw"):
        sources.open(path, recipe=Recipe(kind="vw"))
    with pytest.raises(BadInput, match="format is 'xml'"):
        sources.open(path, format="xml")
    with pytest.raises(BadInput, match="on_error"):
        sources.open(path, on_error="ignore")


@pytest.mark.parametrize("kind", ["svmlight", "vw", "rows"])
@pytest.mark.parametrize("nothing", [b"", b"\n \n"])
def test_nothing_is_data_of_any_kind(tmp_path, kind, nothing) -> None:
    assert list(sources.open(write(tmp_path / "x", nothing), recipe=Recipe(kind=kind), on_error="skip")) == []


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


@pytest.mark.parametrize("on_error", ["skip", "raise"])
@pytest.mark.parametrize(
    ("pack", "spoil", "said"),
    [
        (gzip.compress, lambda packed: packed[: len(packed) // 2], "end too early; the file is incomplete, after line"),
        (zstd, lambda packed: packed[: len(packed) // 2], "end too early; the file is incomplete, after line"),
        (gzip.compress, lambda packed: packed[:-3], "end too early; .*, after line 30,000"),
        (gzip.compress, lambda packed: packed[:-8] + b"abcd" + packed[-4:], "are damaged .*CRC"),
        (gzip.compress, lambda packed: packed + b"more", "are damaged .*Not a gzipped file"),
    ],
)
def test_a_broken_file_is_an_error_after_what_it_holds(tmp_path, pack, spoil, said, on_error) -> None:
    path = write(tmp_path / "x.svm.gz", spoil(pack(random_lines(30_000))))
    source = sources.open(path, on_error=on_error)
    with pytest.raises(BadInput, match=rf"^{path}: the compressed data {said}"):
        list(source)
    assert 5_000 < source.rows <= 30_000
    assert source.skipped == 0


@pytest.mark.parametrize("n", [20, 30_000])  # within the rows that a recipe is fitted to, and after them
@pytest.mark.parametrize(
    ("head", "row"), [("y,a\n", "{},x{}\n"), ("", '{{"y": {}, "a": "x{}"}}\n'), ("", "{} |n x{}\n")]
)
def test_broken_files_of_every_format(tmp_path, head, row, n) -> None:
    text = head + "".join(row.format((-1) ** (k // 3), k % 7) for k in range(n))
    packed = gzip.compress(text.encode())
    path = write(tmp_path / "x.gz", packed[:-4])
    source = sources.open(path, on_error="skip", recipe={"bits": 8})
    with pytest.raises(BadInput, match="the compressed data end too early; the file is incomplete, after line"):
        list(source)
    assert source.rows == n


def test_empty_files(tmp_path) -> None:
    assert list(sources.open(write(tmp_path / "x.svm", b""))) == []
    assert list(sources.open(write(tmp_path / "y.svm", b"\n\n"))) == []


def test_stopping(tmp_path) -> None:
    source = sources.open(write(tmp_path / "x.svm", random_lines(100_000)))
    got = 0
    for batch in source:
        got += len(batch)
        source.stop()
    assert 0 < got < 100_000


@pytest.mark.parametrize("threads", [0, 2])
def test_garbage_leaves_the_model_of_the_good_lines(tmp_path, threads) -> None:
    lines = random_lines(200).splitlines()
    text = mutated(lines, 10_000, seed=3)
    path = write(tmp_path / "x.svm", text)
    source = sources.open(path, recipe={"bits": 12}, on_error="skip", threads=threads)
    got = learned(source, 2**12)

    rows, bad = slow_svmlight.parse(text, 2**12)
    unlabelled = [row for row in rows if row.label not in (1, -1, 0)]
    good = [row for row in rows if row.label in (1, 0, -1)]
    indptr, indices, values, labels, _ = slow_svmlight.arrays(good)
    expected = Batch.from_arrays(indptr, indices, values, np.where(labels > 0, 1.0, -1.0))
    assert got == learned([expected], 2**12)
    assert source.skipped == len(bad) + len(rows) - len(good)
    assert unlabelled
    assert bad
    nothing = sum(not line.partition(b"#")[0].strip(b" \t\r") for line in text.split(b"\n")[:-1])
    assert source.skipped + source.rows == 10_000 - nothing


def test_the_first_rows_of_numbered_features_have_indices_as_all_batches_have(tmp_path) -> None:
    """Rows without a feature, too: kernels are made for one type of index."""
    (tmp_path / "x.vw").write_text("1 3:1\n-1 2:1\n" * 5)
    source = sources.open(str(tmp_path / "x.vw"), format="vw", recipe={"bits": 5, "exact": True}, on_error="skip")
    assert source.peek().indices.dtype == np.uint32


def test_a_link_to_nothing_is_named(tmp_path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    (tmp_path / "b.svm").symlink_to("gone.svm")
    with pytest.raises(BadInput, match=r"b\.svm is a link to a missing file"):
        sources.open(str(tmp_path / "*.svm"))


@pytest.mark.parametrize("form", ["svm", "vw", "csv", "jsonl", "rows"])
def test_bad_lines_are_counted_by_kind(form, tmp_path, monkeypatch) -> None:
    """However many there are of one kind, and however the data are cut: each kind has its count and its first line."""
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4096)
    good, common, rare = {
        "svm": ("1 1:1", "1 2:x", "one 1:1"),
        "vw": ("1 |a b", "1 |a b:", "1 2 3 |a"),
        "csv": ("u,1", "v,", 'w,"1'),
        "jsonl": ('{"a": "u", "y": 1}', '{"a": "v"}', '{"a": 1'),
        "rows": ('{"a": "u", "y": 1}', '{"a": [1]}', '{"a": 1'),
    }[form]
    lines = [good] + [common] * 400 + [rare] + [good] * 3
    head = ["a,y"] if form == "csv" else []
    kind, form = ({"kind": "rows", "label": "y"}, "jsonl") if form == "rows" else ({}, form)
    path = write(tmp_path / f"x.{form}", "\n".join([*head, *lines, ""]).encode())
    source = sources.open(path, recipe={"bits": 8, "task": "binary", **kind}, on_error="skip")
    assert sum(len(batch) for batch in source) == 4
    first, second = sorted(source.error_counts.values(), reverse=True)
    assert (first[0], second[0], source.skipped) == (400, 1, 401)
    assert f"x.{form}:{len(head) + 2}:" in first[1]
    assert f"x.{form}:{len(head) + 402}:" in second[1]


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_that_others_read_give_the_same_rows_and_bad_lines_by_the_same_places(tmp_path, monkeypatch, packed):
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 1 << 12)
    lines = random_lines(2000).splitlines()
    lines[700] = lines[1500] = b"1 2:x"
    text = b"\n".join(lines)
    path = write(tmp_path / "a.svm", gzip.compress(text) if packed else text)

    def opened() -> sources.Source:
        return sources.open(path, format="svmlight", on_error="skip")

    whole = opened()
    rows = list(whole)
    cutter, parts = opened(), [opened(), opened()]
    read, places = [], []
    for number, cut in enumerate(cutter.blocks()):
        part = parts[number % 2]
        read.append(part.read(cut))
        places += (np.asarray(read[-1].positions) + part.lines_before_block).tolist()
    for part in parts:
        cutter.add_counts(part.pass_counts())
    assert learned(read) == learned(rows)
    assert places == [place for batch in rows for place in batch.positions.tolist()]
    assert (cutter.rows, cutter.lines, cutter.skipped) == (whole.rows, whole.lines, whole.skipped)
    assert sorted(cutter.bad_lines) == sorted(whole.bad_lines)
    assert [said.split(":")[1] for said in sorted(whole.bad_lines)] == ["1501", "701"]
