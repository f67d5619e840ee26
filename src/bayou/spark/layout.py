"""Assignment of the rows of Parquet files: some are held out, the others are put in order for the rounds.

Row groups are the unit: they are permuted, and cut only where a shard ends. The held-out rows are SLICES evenly spaced
slices, so that each file contributes its share and few row groups are read for them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from bayou import rounds
from bayou.core.arrow import fs, pq
from bayou.core.checks import check_choice, check_path
from bayou.core.errors import BadInput
from bayou.sources.formats.arrow.parquet import opened, readable
from bayou.sources.reading.open_files import expand
from bayou.sources.row_group_slices import RowGroupSlice, RowGroupSlices

ORDERS = {"mixed": True, "given": False}
SLICES = 64
# Suffixes of the files that are read from a folder.
ENDINGS = (".parquet", ".parq", ".pq")
# With fewer rows than this many shards hold, a single process is faster and learns better.
MIN_SHARDS = 40


@dataclass(frozen=True)
class RowLayout:
    """The rows to learn, in order, and those held out; `mark` is a digest of the files and their row groups."""

    learned: RowGroupSlices
    held: RowGroupSlices
    mark: str

    def shards(self, step: rounds.PlannedRound) -> list[list[RowGroupSlice]]:
        """Return the rows of each shard of a round."""
        rows = step.last - step.first
        edges = [step.first + rows * k // step.shards for k in range(step.shards + 1)]
        return [self.learned.cut(*span) for span in itertools.pairwise(edges)]


def files_of(data: Any) -> list[str]:
    """Return the absolute names of the Parquet files that paths, globs, folders and addresses stand for."""
    names = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(names, list | tuple) or not all(isinstance(name, str | os.PathLike) for name in names):
        raise BadInput("data must be Parquet files (a path, a glob, a folder, several of them) or a Spark DataFrame.")
    files: list[str] = []
    for name in (check_path("data", name) for name in names):
        if "://" in name:
            files += _at_address(name)
        else:
            files += map(os.path.abspath, _in_folder(name) if os.path.isdir(name) else expand(name))
    if not files:
        raise BadInput("no data: name at least one Parquet file, or a folder of them.")
    return files


def _in_folder(name: str) -> list[str]:
    paths = [os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files]
    return _of_rows(name, {os.path.relpath(file, name).replace(os.sep, "/"): file for file in paths})


def _at_address(name: str) -> list[str]:
    with readable(name):
        system, path = fs.FileSystem.from_uri(name)
        if system.get_file_info(path).type != fs.FileType.Directory:
            return [name]
        contents = system.get_file_info(fs.FileSelector(path, recursive=True))
    prefix, _, suffix = name.rpartition(path)
    files = [entry.path for entry in contents if entry.type == fs.FileType.File]
    return _of_rows(name, {file.removeprefix(path).lstrip("/"): prefix + file + suffix for file in files})


def _of_rows(folder: str, paths: dict[str, str]) -> list[str]:
    """Return the files with a Parquet suffix, sorted by name, without hidden ones and those in _temporary etc."""
    named = [name for name in sorted(paths) if name.endswith(ENDINGS)]
    files = [paths[name] for name in named if not any(level[0] in "_." for level in name.split("/"))]
    if not files:
        raise BadInput(f"{folder} is a folder without any Parquet file, *.parquet; name it, or its files by a glob.")
    return files


def row_groups(files: Sequence[str]) -> tuple[list[RowGroupSlice], str]:
    """Return all row groups of some files, and a digest that identifies them."""
    groups, digest = [], xxhash.xxh3_64()
    for name in files:
        with readable(name):
            file = opened(name)
            size, about = file.size(), pq.read_metadata(file)
        rows = [about.row_group(k).num_rows for k in range(about.num_row_groups)]
        groups += [RowGroupSlice(name, k, 0, n) for k, n in enumerate(rows) if n]
        digest.update(os.fsencode(f"{name}\0{size} {rows}\n"))
    return groups, digest.hexdigest()


def held_rows(rows: int, fraction: float | None, min_rows: int) -> int:
    """Return the number of rows to hold out: a fraction, within the bounds that suit learning the combination."""
    usual, low, high = rounds.HOLDOUT_FRACTION_MIN_MAX
    low = low * min_rows // rounds.MIN_SHARD_ROWS
    return int(rounds.Amount(usual if fraction is None else fraction, low, high).of(rows))


def plan_layout(files: Sequence[str], fraction: float | None, order: str, seed: int, min_rows: int) -> RowLayout:
    """Choose the rows to hold out, and order the others. Raise BadInput if there are too few."""
    groups, mark = row_groups(files)
    all_rows = RowGroupSlices(groups)
    if all_rows.rows < MIN_SHARDS * min_rows:
        raise BadInput(
            f"there are {all_rows.rows:,} rows, and rounds need {MIN_SHARDS * min_rows:,}; learn them in one process: "
            "bayou train, or bayou.train."
        )
    held_out, learned, previous_end = [], [], 0
    n_held_out = held_rows(all_rows.rows, fraction, min_rows)
    slices = min(SLICES, n_held_out)
    for k in range(slices):
        size = n_held_out * (k + 1) // slices - n_held_out * k // slices
        first = (2 * k + 1) * all_rows.rows // (2 * slices) - size // 2
        held_out += all_rows.cut(first, first + size)
        learned += all_rows.cut(previous_end, first)
        previous_end = first + size
    learned += all_rows.cut(previous_end, all_rows.rows)
    if check_choice("order", order, ORDERS):
        by_group = [list(group) for _, group in itertools.groupby(learned, key=lambda row_slice: row_slice[:2])]
        mixed = np.random.default_rng(seed).permutation(len(by_group)).tolist()
        learned = [row_slice for k in mixed for row_slice in by_group[k]]
    return RowLayout(RowGroupSlices(learned), RowGroupSlices(held_out), mark)
