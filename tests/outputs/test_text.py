"""Text that is written: numbers that read back as they were, rows that other readers understand, whole files."""

import csv as python_csv
import gzip
import io
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_svmlight_file

from bayou import BadInput, Batch, simulate, sources
from bayou.outputs import text as write

# --- numbers ----------------------------------------------------------------------------------------------------


def written(numbers) -> list[str]:
    return write.csv(np.array([numbers], np.float64)).tobytes().decode().split("\n")[:-1]


def written_float32(numbers) -> list[str]:
    values = np.asarray(numbers, np.float32)
    batch = Batch.from_arrays([0, len(values)], np.arange(len(values)), values, labels=[1])
    return [pair.partition(":")[2] for pair in write.svmlight(batch).tobytes().decode().split()[1:]]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1))
def test_numbers_have_nine_significant_digits(numbers):
    for text, number in zip(written(numbers), numbers, strict=True):
        assert float(text) == pytest.approx(number, rel=5.01e-9, abs=5e-324)
        assert len(re.sub(r"e.*|[-.]", "", text).lstrip("0")) <= 9


def test_many_numbers_are_those_of_printf():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=20_000) * 10.0 ** rng.integers(-300, 300, 20_000)
    assert [float(text) for text in written(numbers)] == [float(f"{number:.9g}") for number in numbers]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.0, "-1"),
        (0.5, "0.5"),
        (100.0, "100"),
        (123456789.0, "123456789"),
        (12345678.9, "12345678.9"),
        (1234567.891, "1234567.89"),
        (999999999.6, "1e9"),
        (1e9, "1e9"),
        (-1.5e300, "-1.5e300"),
        (0.00001, "0.00001"),
        (0.0000123456789, "0.0000123456789"),
        (0.000009999999999, "0.00001"),
        (1e-6, "1e-6"),
        (0.9999999999, "1"),
        (2 / 3, "0.666666667"),
        (5e-324, "4.94065646e-324"),
        (sys.float_info.max, "1.79769313e308"),
        (np.nan, ""),
        (np.inf, ""),
    ],
)
def test_a_number_is_written_as_a_person_would(number, text):
    assert written([number]) == [text]


@given(hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_a_float32_reads_back_with_the_same_bits(values):
    values = np.where(values == 0, np.float32(1), values)  # zeros are no features
    assert np.array([float(text) for text in written_float32(values)]).astype(np.float32).tobytes() == values.tobytes()


def test_random_bits_read_back_and_are_no_longer_than_needed():
    bits = np.random.default_rng(1).integers(1, 2**31, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)[np.isfinite(bits.view(np.float32))]
    texts = written_float32(values)
    assert np.array([float(text) for text in texts]).astype(np.float32).tobytes() == values.tobytes()
    ordinary = np.random.default_rng(2).random(20_000).astype(np.float32)
    texts = written_float32(ordinary)
    assert np.array([float(text) for text in texts]).astype(np.float32).tobytes() == ordinary.tobytes()
    assert np.mean([len(text) for text in texts]) < np.mean([len(str(value)) for value in ordinary]) + 0.1


@given(st.lists(st.integers(0, 2**32 - 2), min_size=1, unique=True))
def test_every_feature_number_is_written_right(features):
    batch = Batch.from_arrays(
        [0, len(features)], np.array(features, np.uint32), np.ones(len(features), "f4"), labels=[1]
    )
    texts = write.svmlight(batch).tobytes().decode().split()[1:]
    assert texts == [f"{feature}:1" for feature in features]


# --- svmlight ---------------------------------------------------------------------------------------------------


def test_labels_rows_and_values():
    batch = Batch.from_rows([{0: 1.0, 4: 0.1}, {}, {7: -2.5e-8}], labels=[1, 0, 0])
    assert write.svmlight(batch).tobytes() == b"1 0:1 4:0.1\n0\n0 7:-2.5e-8\n"
    assert write.svmlight(batch.with_labels([1, -1, -1])).tobytes() == b"1 0:1 4:0.1\n-1\n-1 7:-2.5e-8\n"


@pytest.mark.parametrize("kind", ["random", "nonbinary", "longtail"])
def test_what_is_written_is_read_by_us_and_by_scikit_learn(kind, tmp_path):
    stream = simulate.GENERATORS[kind](seed=3)
    (batch,) = stream.batches(500)
    path = tmp_path / "data.svm"
    path.write_bytes(write.svmlight(batch).tobytes())
    (again,) = sources.open(path, recipe={"bits": 23})
    assert again.indptr.tobytes() == batch.indptr.tobytes()
    assert again.indices.tobytes() == batch.indices.tobytes()
    assert again.values.tobytes() == batch.values.tobytes()
    assert again.labels.tobytes() == batch.labels.tobytes()
    X, y = load_svmlight_file(str(path), n_features=stream.n_features, zero_based=True, dtype=np.float32)
    assert (X != batch.to_csr(stream.n_features)).nnz == 0
    assert (y == batch.labels).all()


def test_an_empty_batch_is_no_text():
    assert write.svmlight(Batch.from_rows([], labels=[])).tobytes() == b""


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (Batch.from_rows([{1: 1.0}]), "label"),
        (Batch.from_rows([{1: 1.0}], labels=[3]), "label of 1, 0 or -1"),
        (Batch.from_rows([{1: 1.0}], labels=[1], weights=[2]), "weights"),
    ],
)
def test_what_svmlight_cannot_say_is_refused(batch, said):
    with pytest.raises(BadInput, match=said):
        write.svmlight(batch)


# --- CSV --------------------------------------------------------------------------------------------------------


@given(
    numbers=hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(0, 20)), elements=finite),
    data=st.data(),
)
def test_csv_is_what_python_reads(numbers, data):
    anything = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
    texts = data.draw(st.none() | st.lists(anything, min_size=numbers.shape[1], max_size=numbers.shape[1]))
    text = write.csv(numbers, texts and write.csv_fragments([texts])).tobytes().decode()
    rows = list(python_csv.reader(io.StringIO(text, newline=""), strict=True)) if text else []
    assert len(rows) == numbers.shape[1]
    for k, row in enumerate(rows):
        assert [float(cell) for cell in row[: len(numbers)]] == pytest.approx(numbers[:, k], rel=1e-8, abs=5e-324)
        assert row[len(numbers) :] == ([] if texts is None else [texts[k]])


def test_columns_that_are_not_contiguous_are_written_right():
    assert write.csv(np.arange(6.0).reshape(3, 2).T).tobytes() == b"0,1\n2,3\n4,5\n"


# --- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz", "a.svm.zst"])
def test_files_are_compressed_by_their_name_and_always_the_same(tmp_path, name):
    path, text = tmp_path / name, b"1 2:3\n" * 10_000
    contents = []
    for _ in range(2):
        with write.output(path) as file:
            file.write(text)
            file.write(np.frombuffer(text, np.uint8))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    if name.endswith(".gz"):
        assert gzip.decompress(contents[0]) == text * 2
    elif name.endswith(".zst"):
        assert pa.input_stream(str(path), compression="zstd").read() == text * 2
    else:
        assert contents[0] == text * 2


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz", "a.svm.zst"])
def test_a_file_that_was_not_finished_leaves_nothing(tmp_path, name):
    def fail():
        with write.output(tmp_path / name) as file:
            file.write(b"1 2:3\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.listdir(tmp_path) == []


FULL = """
import resource, signal, sys
import numpy as np
from bayou import BadInput
from bayou.outputs import text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write beyond the limit fails, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with text.output(sys.argv[1]) as file:
        for k in range(50):
            file.write(np.random.default_rng(k).bytes(10_000))
except BadInput as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst"])
def test_a_full_disk_is_said_and_leaves_what_was_there(tmp_path, name):
    (tmp_path / name).write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path / name], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stdout
    assert done.stdout.endswith("no file was changed.\n")
    assert (tmp_path / name).read_bytes() == b"old"
    assert os.listdir(tmp_path) == [name]


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere.*could not be written"), write.output(tmp_path / "nowhere" / "a.csv"):
        pass
