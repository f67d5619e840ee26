"""Model files: exact, small, whole or not at all, and refused with a sentence when they are something else."""

import copy
import errno
import json
import os
import pickle
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open

import bayou
from bayou import BadModel, Batch
from bayou.core import model_file as model
from bayou.core import registry
from bayou.core.extras import Counters, Extras, ResumePoint, RoundProgress
from bayou.core.file_fingerprints import FileFingerprint
from bayou.learners import AdaGrad, Marginal
from bayou.recipe.feature_names import NewNames
from bayou.recipe.recipe import Recipe

GOLDEN = Path(__file__).parents[1] / "golden"


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def learned(**parameters) -> Marginal:
    learner = Marginal(n_features=5000, **parameters)
    learner.learn(Batch.from_rows([{0: 1.0, 4999: -2.0}, {17: 1.0}, {}] * 3, labels=[1, -1, -1] * 3))
    return learner


# --- round trips ------------------------------------------------------------------------------------------------


numbers = st.sampled_from(["f4", "f8", "i8", "u4", "u1"])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@given(
    header=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | st.text()),
    arrays=st.dictionaries(
        st.text("abcdef.:_", min_size=1, max_size=6), numbers.flatmap(lambda t: hnp.arrays(t, shapes))
    ),
)
def test_what_is_written_is_read(header, arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("trip") / "m.bayou"
    model.write(path, header, arrays)
    again, read = model.read(path)
    assert again == header
    assert read.keys() == arrays.keys()
    assert all(same_bits(read[name], array) for name, array in arrays.items())


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "u2"])
@pytest.mark.parametrize("width", [(), (1,), (2,), (3,), (5, 2)])
def test_mostly_zero_arrays_are_stored_small_and_exactly(tmp_path, dtype, width):
    array = np.zeros((100_000, *width), dtype)
    rng = np.random.default_rng(0)
    rows = rng.choice(100_000, 50, replace=False)
    array[rows] = rng.integers(1, 200, (50, *width))
    array[0] = array[-1] = 3
    if dtype.startswith("f"):
        array[7] = -0.0  # no number differs from 0 here, but a bit does
        array[8] = np.finfo(dtype).smallest_subnormal
    model.write(tmp_path / "m", {}, {"a": array, "b": array[:3]})
    _, read = model.read(tmp_path / "m")
    assert same_bits(read["a"], array)
    assert same_bits(read["b"], array[:3])
    assert (tmp_path / "m").stat().st_size < 10_000 < array.nbytes


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_an_array_never_takes_much_more_than_its_dense_size(tmp_path, share):
    rng = np.random.default_rng(1)
    array = np.where(rng.random((20_000, 1)) < share, rng.normal(size=(20_000, 2)), 0.0).astype("f4")
    model.write(tmp_path / "m", {}, {"a": array})
    assert same_bits(model.read(tmp_path / "m")[1]["a"], array)
    assert (tmp_path / "m").stat().st_size <= min(array.nbytes, 12 * 20_000 * share * 1.05) + 2_000


def test_arrays_that_are_not_contiguous_are_written_right(tmp_path):
    array = np.arange(6000.0).reshape(3000, 2)
    arrays = {"t": array.T, "s": array[::3], "z": np.zeros((4000, 2))[::2]}
    model.write(tmp_path / "m", {}, arrays)
    read = model.read(tmp_path / "m")[1]
    assert all(same_bits(read[name], np.ascontiguousarray(a)) for name, a in arrays.items())


def test_names_that_look_like_parts_of_others_are_kept_apart(tmp_path):
    few = np.zeros(5000)
    few[17] = 1.0
    arrays = {"a": few, "a.x": np.ones(2), "b": few, "b.rows": np.ones(3), "c": few, "c.kept": few, "d.rows": few}
    model.write(tmp_path / "m", {}, arrays)
    read = model.read(tmp_path / "m")[1]
    assert read.keys() == arrays.keys()
    assert all(same_bits(read[name], array) for name, array in arrays.items())


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_large_arrays_are_read_in_blocks_and_come_back_the_same(tmp_path, monkeypatch, share):
    monkeypatch.setattr(model, "_BLOCK_BYTES", 1000)
    rng = np.random.default_rng(2)
    array = np.where(rng.random((3001, 1)) < share, rng.normal(size=(3001, 2)), 0.0).astype("f4")
    arrays = {"a": array, "flat": array.ravel(), "wide": array.reshape(2, -1), "one": np.array(7.0)}
    model.write(tmp_path / "m", {}, arrays)
    with model.open_lazily(tmp_path / "m") as (_, stored):
        blocks = list(stored["a"].blocks())
    assert len(blocks) > 5
    assert all(block.nbytes <= 1000 for _, block in blocks)
    read = model.read(tmp_path / "m")[1]
    assert all(same_bits(read[name], array) for name, array in arrays.items())


def test_a_touched_few_of_many_features_make_a_small_file(tmp_path):
    learner = Marginal(n_features=1 << 20)
    learner.learn(Batch.from_rows([{5: 1.0, 1_000_000: 1.0}], labels=[1]))
    learner.save(tmp_path / "m.bayou")
    assert (tmp_path / "m.bayou").stat().st_size < 4_000
    assert same_bits(bayou.load(tmp_path / "m.bayou").mean, learner.mean)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    """safetensors' own writer has its keys in another order each time, also within one process."""
    learner = learned()
    learner.extras.counters = Counters(examples=9, weight=9.0, loss=1.5, runs=1)
    files = set()
    for k in range(8):
        learner.save(tmp_path / f"{k}")
        bayou.load(tmp_path / f"{k}").save(tmp_path / "again")
        files |= {(tmp_path / f"{k}").read_bytes(), (tmp_path / "again").read_bytes()}
    assert len(files) == 1


@pytest.mark.parametrize("width", [1, 2, 3, 16])
def test_rows_of_several_arrays_with_a_bit_set(width):
    """By words of eight bytes and of fewer; 0.0 has no bit, -0.0 has one."""
    some, other, flags = np.zeros((50, width), "f4"), np.zeros((50, 2), "f4"), np.zeros(50, "u1")
    some[3, -1] = other[7, 0] = other[3] = 1e-40
    some[9, 0], flags[11] = -0.0, 1
    assert model.nonzero_rows(some).tolist() == [3, 9]
    assert model.nonzero_rows(some, other, flags).tolist() == [3, 7, 9, 11]
    assert model.nonzero_rows(some[::3]).tolist() == [1, 3]
    assert model.nonzero_rows(some[:0]).tolist() == []


def test_rows_that_are_packed_already_give_the_bytes_of_the_array(tmp_path):
    array = np.zeros((3000, 4), np.float32)
    array[[3, 70, 2999]] = 1.5
    for name, arrays in {"array": {"a": array}, "packed": {"a": model.packed(array)}}.items():
        model.write(tmp_path / name, {}, arrays)
    assert (tmp_path / "array").read_bytes() == (tmp_path / "packed").read_bytes()


def test_files_are_what_safetensors_itself_would_write_but_for_the_order(tmp_path):
    arrays = {"b": np.zeros((2, 3), "f4"), "a": np.ones(3, "u1"), "c": np.arange(4), "e": np.zeros((0, 2))}
    model.write(tmp_path / "m", {"ü": "\n\x01"}, arrays)
    with safe_open(tmp_path / "m", framework="numpy") as file:
        theirs = safetensors.numpy.save({name: file.get_tensor(name) for name in arrays}, file.metadata())
    ours = (tmp_path / "m").read_bytes()
    heads = [json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]) for data in (ours, theirs)]
    assert heads[0] == heads[1]
    assert len(ours) == len(theirs)


def test_no_code_is_in_a_file(tmp_path):
    learned().save(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["format"] == "bayou-model"
    assert metadata["version"] == "1"
    assert json.loads(metadata["header"])["learner"] == "marginal"


def test_headers_that_json_cannot_say_are_refused_before_anything_is_written(tmp_path):
    for unsayable in (float("nan"), {1, 2}, np.ones(3), {(1, 2): 3}):
        with pytest.raises(BadModel, match="JSON cannot represent"):
            model.write(tmp_path / "m", {"x": unsayable}, {})
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_things_that_are_no_numbers_are_refused(tmp_path):
    with pytest.raises(BadModel, match="could not be written"):
        model.write(tmp_path / "m", {}, {"x": np.array(["a", "b"])})
    assert list(tmp_path.iterdir()) == []


# --- whole or not at all ----------------------------------------------------------------------------------------


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def half_a_file(file, metadata, stored):
    file.write(safetensors.numpy.save(stored, metadata)[:100])
    full_disk()


def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "failure"),
    [
        ("os.replace", full_disk),
        ("os.replace", interrupted),
        ("os.fsync", full_disk),
        ("os.chmod", full_disk),
        ("bayou.core.model_file._write_safetensors", full_disk),
        ("bayou.core.model_file._write_safetensors", half_a_file),
    ],
)
@pytest.mark.parametrize("existed", [True, False])
def test_a_failed_save_leaves_the_old_file_whole_and_no_litter(tmp_path, monkeypatch, where, failure, existed):
    path = tmp_path / "m.bayou"
    old, new = Marginal(n_features=3), learned()
    if existed:
        old.save(path)
        before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(where, failure)
        with pytest.raises((BadModel, KeyboardInterrupt), match=r"m\.bayou could not be written \(No space left|^$"):
            new.save(path)
    if existed:
        assert path.read_bytes() == before
        assert bayou.load(path).n_features == 3
    assert [p.name for p in tmp_path.iterdir()] == (["m.bayou"] if existed else [])
    new.save(path)
    assert bayou.load(path).n_features == 5000


def test_the_file_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    seen = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append("replace"), replace(a, b))[1])
    learned().save(tmp_path / "m")
    assert seen == ["fsync", "replace", "fsync"]  # the file; its name; the folder that holds the name


def test_saving_into_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(BadModel, match=r"nowhere/m\.bayou could not be written \(No such file or directory\)"):
        learned().save(tmp_path / "nowhere" / "m.bayou")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        learned().save(tmp_path / "m")
        (tmp_path / "plain").touch()
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("m", "plain")}
    assert modes == {0o666 & ~umask}


def test_a_learner_may_be_saved_over_the_file_it_came_from(tmp_path):
    path = tmp_path / "m.bayou"
    learned().save(path)
    learner = bayou.load(path)
    learner.learn(Batch.from_rows([{1: 1.0}], labels=[1]))
    learner.save(path)
    assert bayou.load(path).examples == learner.examples == 10
    assert same_bits(bayou.load(path).mean, learner.mean)


def test_a_link_goes_on_pointing_at_the_file_it_pointed_at(tmp_path):
    (tmp_path / "latest").symlink_to(tmp_path / "m3.bayou")
    learned().save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert bayou.load(tmp_path / "m3.bayou").examples == 9


DISK_WITHOUT_ROOM = """
import resource, signal, sys
import bayou
from bayou.learners import Marginal
learner = Marginal(n_features=300_000)
learner._state[:] = 0.5  # two megabytes and more
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write beyond the limit fails, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    learner.save(sys.argv[1])
except bayou.BadModel as error:
    print(error)
"""


def test_a_write_that_fails_half_way_leaves_the_old_model_whole(tmp_path):
    path = tmp_path / "m.bayou"
    learned().save(path)
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", DISK_WITHOUT_ROOM, path], capture_output=True, text=True, check=True)
    assert re.fullmatch(r".*m\.bayou could not be written \(.*too large.*\); no file was changed\.\n", done.stdout)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.bayou"]


def test_paths_may_be_strings_and_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learned().save("m.bayou")
    assert bayou.load("m.bayou").examples == 9


# --- files that are something else ------------------------------------------------------------------------------


def written(path: Path, header=None, sparse=None, version="1", tensors=None, **more) -> Path:
    """A file as bayou would write it, but for what is given."""
    header = {"learner": "marginal", "parameters": {"n_features": 3}, "examples": 0, "negative_label": None} | (
        header or {}
    )
    metadata = {"format": "bayou-model", "version": version, "header": json.dumps(header), "sparse": sparse or "{}"}
    tensors = {} if tensors is None else tensors
    if not any(name.startswith("state") for name in tensors):
        tensors["state"] = np.zeros((3, 2), "f4")
    tensors = {"intercept": np.zeros((1, 2))} | {name: a for name, a in tensors.items() if a is not None}
    safetensors.numpy.save_file(tensors, path, metadata=signed(metadata, tensors) | more)
    return path


def signed(metadata, tensors):
    """With checksums, so that more than these are looked at."""
    return model.sign(metadata, {name: model._checksum(array) for name, array in tensors.items()})


def test_a_file_written_by_hand_as_bayou_would_is_read(tmp_path):
    assert bayou.load(written(tmp_path / "m")).n_features == 3


def test_a_truncated_file_is_refused_at_every_length(tmp_path):
    learned().save(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    lengths = sorted({*range(0, 64), *range(64, len(content), 37), *range(len(content) - 20, len(content))})
    for length in lengths:
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(BadModel, match="cut"):
            bayou.load(tmp_path / "cut")
    (tmp_path / "long").write_bytes(content + b"\0")
    with pytest.raises(BadModel, match="long"):
        bayou.load(tmp_path / "long")


@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "noise.bayou"
    path.write_bytes(content)
    with pytest.raises(BadModel, match=r"noise\.bayou is not a bayou model"):
        bayou.load(path)


@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_damaged_byte_is_refused_or_read_but_never_breaks_anything(at, byte, tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "m.bayou"
    learned().save(path)
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] = byte
    path.write_bytes(content)
    refusal = ""
    try:
        learner = bayou.load(path)
    except BadModel as error:
        refusal = str(error)
    if refusal:
        assert "m.bayou" in refusal
    else:
        assert learner.mean.shape == (learner.n_features,)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path.write_bytes(b""), "not a bayou model, or is incomplete"),
        (lambda path: path.write_bytes(os.urandom(5000)), "not a bayou model"),
        (lambda path: path.write_text("1 3:1 4:1\n-1 2:1\n"), "not a bayou model"),
        (lambda path: path.mkdir(), "no such model file"),
        (lambda path: None, "no such model file"),
        (lambda path: safetensors.numpy.save_file({"w": np.ones(3)}, path), "safetensors file of another kind"),
        (
            lambda path: safetensors.numpy.save_file({"w": np.ones(3)}, path, metadata={"format": "pt"}),
            "safetensors file of another kind",
        ),
        (lambda path: written(path, version="2"), "format 2; this bayou reads up to format 1.*Upgrade"),
        (lambda path: written(path, version="new"), "not a bayou model"),
        (lambda path: written(path, version="0"), "not a bayou model|format 0"),
        (lambda path: written(path, header={"learner": "swamp"}), "no learner called 'swamp'"),
        (lambda path: written(path, header={"learner": ["swamp"]}), "cannot"),
        (lambda path: written(path, header={"parameters": {"n_features": -3}}), "n_features is -3"),
        (lambda path: written(path, header={"parameters": {"n_features": 3, "depth": 4}}), "depth"),
        (lambda path: written(path, header={"parameters": {"n_features": 4}}), "array 'state'"),
        (lambda path: written(path, header={"parameters": None}), "cannot"),
        (lambda path: written(path, header={"examples": "many"}), "examples"),
        (lambda path: written(path, header={"examples": -1}), "examples"),
        (lambda path: written(path, header={"examples": 2**63}), "examples"),
        (lambda path: written(path, chacksums="{}"), "damaged.*chacksums"),
        (lambda path: written(path, header={"negative_label": 3}), "negative"),
        (lambda path: written(path, tensors={"state": None}), "array 'state'"),
        (
            lambda path: written(path, tensors={"state": np.zeros((3, 2))}),
            "array 'state'",
        ),
        (
            lambda path: written(path, tensors={"state": np.full((3, 2), np.nan, "f4")}),
            "finite",
        ),
        (lambda path: written(path, sparse='{"state": [3, 2]}', tensors={"state": None}), "state"),
        (
            lambda path: written(
                path,
                sparse='{"state": [3, 2]}',
                tensors={
                    "state.rows": np.array([7], "u4"),
                    "state.kept": np.ones((1, 2), "f4"),
                },
            ),
            "state",
        ),
        (
            lambda path: written(
                path,
                sparse='{"state": [1152921504606846976, 2]}',
                tensors={
                    "state.rows": np.array([1], "u4"),
                    "state.kept": np.ones((1, 2), "f4"),
                },
            ),
            "state",
        ),
        (
            lambda path: written(
                path,
                sparse='{"state": [3, 2]}',
                tensors={"state.rows": np.array([1], "u4"), "state.kept": np.ones((1, 1), "f4")},
            ),
            "state",
        ),
        (lambda path: written(path, header={"attached": [1]}), "attached"),
        (lambda path: written(path, sparse="[]"), "not a bayou model"),
        (lambda path: written(path, sparse="{"), "not a bayou model"),
    ],
)
def test_what_is_not_a_model_of_ours_is_refused_with_a_sentence(tmp_path, make, sentence):
    path = tmp_path / "thing.bayou"
    make(path)
    with pytest.raises(BadModel, match=sentence) as refusal:
        bayou.load(path)
    assert "thing.bayou" in str(refusal.value)


def test_a_header_that_is_no_mapping_is_refused(tmp_path):
    path = tmp_path / "m.bayou"
    metadata = {"format": "bayou-model", "version": "1", "header": "[1, 2]", "sparse": "{}"}
    tensors = {"state": np.zeros((3, 2), "f4")}
    safetensors.numpy.save_file(tensors, path, metadata=signed(metadata, tensors))
    with pytest.raises(BadModel, match=r"m\.bayou"):
        bayou.load(path)


def test_a_file_without_checksums_is_refused(tmp_path):
    metadata = {"format": "bayou-model", "version": "1", "header": "{}", "sparse": "{}"}
    safetensors.numpy.save_file({"state": np.zeros((3, 2), "f4")}, tmp_path / "m.bayou", metadata=metadata)
    with pytest.raises(BadModel, match="or is incomplete"):
        bayou.load(tmp_path / "m.bayou")


# --- golden files -----------------------------------------------------------------------------------------------


# The forest has no golden file yet: its state is going to grow.
@pytest.mark.parametrize("name", [r.name for r in registry.own_records() if r.name not in ("classes", "forest")])
def test_golden_files_of_version_1_load_as_they_were(name):
    learner = bayou.load(GOLDEN / f"{name}-v1.bayou")
    expected = np.load(GOLDEN / f"{name}-v1.npz")
    assert type(learner) is registry.find(name).load()
    assert learner.examples == expected["examples"]
    state = learner._arrays()["state"]
    assert same_bits(state[expected["rows"]], expected["state"])
    assert np.count_nonzero(state.any(axis=1)) == len(expected["rows"])
    assert same_bits(learner._arrays()["intercept"], expected["intercept"])
    predicted = learner.predict(Batch.from_arrays(expected["indptr"], expected["indices"], expected["values"]))
    np.testing.assert_allclose(predicted.expected, expected["probability"], atol=1e-6)
    np.testing.assert_allclose(predicted.mean, expected["mean"], atol=1e-5)


def test_the_golden_file_of_several_classes_loads_as_it_was():
    learner, expected = bayou.load(GOLDEN / "classes-v1.bayou"), np.load(GOLDEN / "classes-v1.npz")
    arrays = learner._arrays()
    assert sorted(arrays) == expected["names"].tolist()
    lanes = [str(output.lane) for output in learner.learners[0].lanes]
    assert lanes[:3] == ["scaled learned 0.1", "scaled 10", "tempered 0.1, fading 0.0001"]
    assert learner.class_names == ["ham", "spam", "eggs"]
    assert same_bits(learner.labels, expected["labels"])
    assert same_bits(learner.counts, expected["counts"])
    assert learner.touched.tolist() == expected["touched"].tolist()
    assert same_bits(arrays["stacker covariances"], expected["covariances"])
    assert same_bits(arrays["2:state"][: len(expected["state"])], expected["state"])
    questions = Batch.from_arrays(expected["indptr"], expected["indices"], expected["values"])
    for horizon in ("next", "later"):
        np.testing.assert_allclose(learner.predict(questions, horizon).probability, expected[horizon], atol=1e-6)
    np.testing.assert_allclose(learner.predict(questions).mean, expected["mean"], atol=1e-5)
    before = learner.examples
    learner.learn(Batch.from_rows([{4095: 1.0}], labels=[7]))
    assert (learner.examples, learner.class_names[-1]) == (before + 1, "7")


def test_golden_files_hold_their_parameters_and_go_on():
    marginal = bayou.load(GOLDEN / "marginal-v1.bayou")
    assert marginal.parameters["temper"] == [0.7, 0.3]
    assert marginal.parameters["memory"] == 0.001
    assert marginal.parameters["prior_mean"] == 0.25
    adagrad = bayou.load(GOLDEN / "adagrad-v1.bayou")
    assert (adagrad.parameters["learning_rate"], adagrad.parameters["l2"]) == (0.3, 0.01)
    bank = bayou.load(GOLDEN / "bank-v1.bayou")
    assert [str(output.lane) for output in bank.lanes] == ["tempered 10", "scaled 1", "AdaGrad 0.8", "tempered 10"]
    for learner in (marginal, adagrad, bank):
        before = learner.examples
        with pytest.raises(bayou.BadInput, match="both -1 and 0"):  # the golden streams said 0
            learner.learn(Batch.from_rows([{}], labels=[-1]))
        learner.learn(Batch.from_rows([{4095: 1.0}], labels=[0]))
        assert learner.examples == before + 1


# --- what travels with a model ----------------------------------------------------------------------------------


def saved_and_loaded(learner, path):
    learner.save(path)
    return bayou.load(path)


ways = {
    "save and load": lambda learner, folder: saved_and_loaded(learner, folder / "m.bayou"),
    "twice": lambda learner, folder: saved_and_loaded(
        saved_and_loaded(learner, folder / "m.bayou"), folder / "m.bayou"
    ),
    "copy": lambda learner, _: copy.copy(learner),
    "deepcopy": lambda learner, _: copy.deepcopy(learner),
    "snapshot": lambda learner, _: learner.snapshot(),
    "pickle": lambda learner, _: pickle.loads(pickle.dumps(learner)),
}


def extras_of(kind: str = "vw", **more) -> Extras:
    """All that can travel with a model of 2^4 weights."""
    extras = Extras.new(Recipe(kind=kind, bits=4, exact=True, **more))
    if extras.names is not None:
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


def plain(extras: Extras) -> tuple:
    return extras.to_json(), {name: array.tobytes() for name, array in extras.arrays().items()}


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("kind", [Marginal, AdaGrad])
@pytest.mark.parametrize("extras", [extras_of(), extras_of("svmlight"), Extras()], ids=["vw", "svmlight", "none"])
def test_extras_go_where_the_model_goes(kind, way, extras, tmp_path):
    learner = kind(n_features=16)
    learner.learn(Batch.from_rows([{3: 1.0}], labels=[1]))
    learner.extras = extras
    twin = ways[way](learner, tmp_path)
    assert plain(twin.extras) == plain(extras)
    assert twin.extras.recipe == extras.recipe
    assert twin.extras.counters == extras.counters
    assert twin.extras.unfinished == extras.unfinished
    assert twin.extras.rounds == extras.rounds
    assert same_bits(twin.mean, learner.mean)


@pytest.mark.parametrize("way", ways)
def test_copies_have_extras_of_their_own(way, tmp_path):
    learner = learned()
    learner.extras = extras_of()
    before = plain(learner.extras)
    twin = ways[way](learner, tmp_path)
    twin.extras.numbering.add(np.uint64([13]))
    text = np.frombuffer(b"new", np.uint8)
    twin.extras.names.add(NewNames(np.uint32([5]), np.array([[-1, -1, 0, 3]]), text, text, b"^"))
    twin.extras.counters = twin.extras.unfinished = None
    assert plain(learner.extras) == before
    assert len(twin.extras.names) == 3


def test_the_file_format_is_that_of_the_first_version(tmp_path):
    learner = learned()
    learner.extras = extras_of()
    learner.save(tmp_path / "m.bayou")
    with safe_open(tmp_path / "m.bayou", "numpy") as file:
        attached, keys = json.loads(file.metadata()["header"])["attached"], set(file.keys())
    assert attached["recipe"]["kind"] == "vw"
    assert attached["counters"] == {
        "examples": 9, "nonzeros": 18, "skipped": 1, "weight": 10.0, "loss": 5.5, "runs": 2, "log_loss": 0.55,
    }  # fmt: skip
    assert attached["unfinished"] == {
        "data": ["a", "b"], "pass": 1, "passes": 3, "rows": 7, "skipped": 1, "holdout": 0.1, "last": False,
    }  # fmt: skip
    assert {key for key in keys if key.startswith("attached:")} == {
        "attached:names.indices", "attached:names.ends", "attached:names.text", "attached:names.full",
        "attached:numbering.ids",
    }  # fmt: skip


def test_files_that_know_nothing_of_extras_have_none():
    assert bayou.load(GOLDEN / "marginal-v1.bayou").extras == Extras()


def test_what_else_a_file_has_is_ignored():
    attached = {"history": [1], "recipe": {"kind": "vw", "bits": 4, "exact": True}}
    extras = Extras.from_file(attached, {"other": np.arange(3)})
    assert extras == Extras(Recipe(kind="vw", bits=4, exact=True))


@pytest.mark.parametrize("weight", [0.0, 4.0])
def test_counters_come_back_from_json(weight):
    counters = Counters(examples=4, nonzeros=9, weight=weight, loss=2.0, runs=1, loss_name="squared_loss")
    assert Counters.from_json(counters.to_json()) == counters


@pytest.mark.parametrize(
    ("attached", "said"),
    [
        ([1], "attached"),
        ({"counters": 3}, "counters"),
        ({"counters": {"examples": "many"}}, "examples = 'many'"),
        ({"unfinished": []}, "unfinished"),
        ({"recipe": {"colour": "red"}}, "colour"),
    ],
)
def test_extras_that_cannot_be_are_refused(attached, said):
    with pytest.raises(BadModel, match=said):
        Extras.from_file(attached, {})


def test_merging_merges_what_travels_with_the_models():
    first, second, base = learned(), learned(), learned()
    first.extras, second.extras, base.extras = extras_of(), extras_of(), extras_of()
    text = np.frombuffer(b"new", np.uint8)
    second.extras.names.add(NewNames(np.uint32([5]), np.array([[-1, -1, 0, 3]]), text, text, b"^"))
    second.extras.counters = Counters(examples=20, nonzeros=30, skipped=2, weight=20.0, loss=8.0, runs=3)
    merged = first.merge(second).extras
    assert merged.names.name_of([3, 5, 7]) == ["one", "new", "two"]
    assert merged.counters == Counters(examples=29, nonzeros=48, skipped=3, weight=30.0, loss=13.5, runs=5)
    assert merged.unfinished is None
    assert len(first.extras.names) == 2
    assert first.merge(second, base=base).extras.counters == second.extras.counters  # what base counted counts once
    second.extras.counters = None
    assert first.merge(second).extras.counters == first.extras.counters
    assert first.merge(second).examples == 18


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (Recipe(bits=18), Recipe(bits=20), "bits is 18 in one and 20 in the other"),
        (Recipe(kind="table"), Recipe(kind="table", label="y"), "label is not given in one and y in the other"),
        (Recipe(bits=18), None, "one has a recipe and the other has none"),
    ],
)
def test_models_of_different_recipes_are_not_merged(one, other, said):
    first, second = learned(), learned()
    first.extras, second.extras = Extras(one), Extras(other)
    for mine, theirs in ((first, second), (second, first)):
        with pytest.raises(BadModel, match="different recipes"):
            mine.merge(theirs)
    with pytest.raises(BadModel, match=said):
        first.merge(second)
    with pytest.raises(BadModel, match="different recipes"):
        first.merge(first, base=second)
