"""Model files are what was written, or refused: every bit counts."""

import numpy as np
import pytest

import bayou
from bayou import Batch
from bayou.core import model_file
from bayou.learners import Marginal


@pytest.fixture
def model(tmp_path):
    learner = Marginal(3000)
    rng = np.random.default_rng(0)
    learner.learn(Batch.from_csr(rng.normal(size=(50, 3000)), rng.integers(0, 2, 50)))
    learner.save(tmp_path / "m.bayou")
    return tmp_path / "m.bayou"


def test_a_flipped_bit_anywhere_is_noticed(model):
    whole = model.read_bytes()
    expected = bayou.load(model).mean
    rng, refused = np.random.default_rng(1), 0
    for _ in range(400):
        at, bit = int(rng.integers(len(whole))), int(rng.integers(8))
        model.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
        try:
            loaded = bayou.load(model)
        except bayou.BadModel:
            refused += 1
            continue
        np.testing.assert_array_equal(loaded.mean, expected)  # padding, or a space in the header
        assert loaded.examples == 50
    assert refused > 390


def test_a_flipped_bit_of_a_weight_is_told_as_that(model, monkeypatch):
    for small in (True, False):  # an array in memory at once, and one that is read in blocks
        if not small:
            monkeypatch.setattr(model_file, "_BLOCK_BYTES", 4096)
        whole = bytearray(model.read_bytes())
        whole[-100] ^= 1
        model.write_bytes(whole)
        with pytest.raises(bayou.BadModel, match=r"m\.bayou: the file is damaged \(its state"):
            bayou.load(model)
        whole[-100] ^= 1
        model.write_bytes(whole)
        assert bayou.load(model).examples == 50


def test_a_header_without_end_is_refused(tmp_path):
    from safetensors.numpy import save_file

    path = tmp_path / "m.bayou"
    metadata = {"format": "bayou-model", "version": "1", "header": "[" * 200_000, "sparse": "{}"}
    arrays = {"state": np.zeros(3)}
    sums = {name: model_file._checksum(array) for name, array in arrays.items()}
    save_file(arrays, path, metadata=model_file.sign(metadata, sums))
    with pytest.raises(bayou.BadModel, match="not a bayou model, or is incomplete"):
        bayou.load(path)
