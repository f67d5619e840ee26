"""Which rows are held out, and what rounds take of the others: every row once, in an order that a seed decides."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou import BadInput
from bayou.rounds import plan_passes
from bayou.spark.layout import files_of, plan_layout, row_groups


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four files, 1,000 rows, row groups of 90."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "day=2").mkdir()
    for name, n in {"a.parquet": 500, "b.parquet": 20, "c.parquet": 0, "day=2/a.parquet": 480}.items():
        pq.write_table(pa.table({"k": list(range(n))}), folder / name, row_group_size=90)
    (folder / "_temporary").mkdir()
    for name in ("_SUCCESS", ".b.parquet.crc", "day=2/_metadata", "notes.txt", "_temporary/part.parquet"):
        (folder / name).touch()
    return folder


def numbers(parts) -> list[tuple[str, int, int]]:
    return [(part.file, part.group, k) for part in parts for k in range(part.first, part.last)]


@pytest.mark.parametrize("order", ["mixed", "given"])
def test_every_row_is_learned_or_held_out(folder, order):
    files = files_of(folder)
    layout = plan_layout(files, None, order, seed=3, min_rows=20)
    learned, held = numbers(layout.learned.parts), numbers(layout.held.parts)
    everything = numbers(row_groups(files)[0])
    assert sorted(learned + held) == sorted(everything)
    assert len(held) == 40  # twice a shard
    assert {name for name, _, _ in held} == {files[0], files[1], files[3]}  # some of all that have rows
    assert (learned == [row for row in everything if row not in set(held)]) is (order == "given")
    again = plan_layout(files, None, order, seed=3, min_rows=20)
    assert again.learned.parts == layout.learned.parts
    # A row group is gone through once.
    scans = [scan[:2] for scan in layout.learned.scans()]
    assert len(scans) == len(set(scans))
    for step in plan_passes(layout.learned.rows, 4, 100, 20, passes=2):
        shards = layout.shards(step)
        assert len(shards) == step.shards
        assert numbers([part for shard in shards for part in shard]) == learned[step.first : step.last]


def test_another_seed_is_another_order(folder):
    one, other = (plan_layout(files_of(folder), 0.1, "mixed", seed, min_rows=10) for seed in (1, 2))
    assert one.held.parts == other.held.parts
    assert one.held.rows == 100
    assert one.learned.parts != other.learned.parts
    assert one.mark == other.mark


def test_files_are_found(folder, monkeypatch):
    every = [str(folder / name) for name in ("a.parquet", "b.parquet", "c.parquet", "day=2/a.parquet")]
    assert files_of(folder) == every
    assert files_of([str(folder / "*.parquet"), folder / "day=2"]) == every
    assert files_of(folder.as_uri()) == [f"file://{name}" for name in every]
    monkeypatch.chdir(folder)
    assert files_of("a.parquet") == every[:1]  # workers stand in another folder
    marks = {row_groups(some)[1] for some in (every, every[:3], every[::-1])}
    assert len(marks) == 3


def test_what_is_no_data_gets_a_sentence(folder, tmp_path):
    for data, words in (
        (17, "data must be Parquet files"),
        ([], "no data"),
        (str(tmp_path), "without any Parquet file"),
        (str(tmp_path / "no*"), "no file matches"),
        ("nonsense://x", "cannot be read"),
    ):
        with pytest.raises(BadInput, match=words):
            files_of(data)
    with pytest.raises(BadInput, match=r"1,000 rows, and rounds need 400,000.*bayou train"):
        plan_layout(files_of(folder), None, "mixed", 0, 10_000)
    with pytest.raises(BadInput, match="day=2/_metadata: the Parquet file cannot be read"):
        row_groups([str(folder / "day=2" / "_metadata")])
