"""Vowpal Wabbit text: `label weight tag|namespace:scale name:value ...`, one example per line.

This is the part of VW's grammar that describes examples of binary classification and regression, read as VW 9 reads
it. Anything outside of it, or that VW itself reads only by accident, makes a line bad: it is skipped and described, it
has no effect, and nothing is guessed.

    line      = [label space [weight space]] [tag] namespace {namespace}
    tag       = a word that touches the "|", or the last word if it begins with a quote mark, such as 'today
    namespace = "|" [name [":" number]] {blank [feature]}
    feature   = name | name ":" number | name ":" text
    blank     = a space or a tab; space = at least one space; a line may begin with spaces, too

- A line ends in a newline, or in a carriage return and a newline. Blank lines are ignored (VW uses them to separate
  multi-line examples). Other control characters, including NUL, are errors anywhere.
- Only spaces separate label, weight and tag: `1|a b` has the tag 1 and no label, `1 2|a` the label 1 and the tag 2, as
  in VW. Tabs before the first "|" are errors (VW would drop all that precedes them). The quote mark is not part of the
  tag. A line without a label can only be predicted.
- A third number (VW's base value) and other kinds of labels (`1:0.5 2:1`, `shared`) are errors, and so is a line
  without "|", which VW reads as a tag.
- Names are any other bytes up to a blank, ":" or "|". A namespace is identified by its full name. That of `| a b` has
  no name. A namespace may be empty or occur twice; a scale applies up to the next "|".
- `name` has the value 1, `name:number` that number, both times the namespace's scale. `name:text` is an indicator of
  name and text together; its value is 1 whatever the scale. Values of 0 are left out.
- Numbers are as in `scan.number`, of at most 1e12 in size (weights: 0 to 1e6), and end at a blank or at "|": `x:5kg`,
  `x:nan` and `x:0x10` are errors.
- A text may contain ":" (`page:http://a.b`), but not "|". Texts that VW reads as numbers nevertheless are errors: those
  that begin with nan or inf (`city:nancy`), and numbers that lack only their digits (`x:-`, `x:.`, `x:e5`).
- Names are required: `:3` (VW numbers such features) and `|:2` are errors, and so is `x: 3`.

A namespace's hash is murmur3 of its name, 0 without a name; a feature's is murmur3 of its name with the namespace's
hash as the seed, and that of name:text is murmur3 of the text with the hash of the name as the seed. But unless
`recipe.hash_all` is set, a name or namespace that consists of digits is hashed to that number, plus the namespace's
hash. In exact mode names are always texts.

Crosses: `recipe.cross` pairs the features of two namespaces: every one of the first with every one of the second. A
pair's value is the product of their values, its hash is `hashing.cross` of their hashes, and it comes after the line's
features. A namespace crossed with itself pairs any two different features once (that with the smaller hash counts as
the first). "*" is every other namespace; " " is the one without a name. Two namespaces are crossed once, even if
several rules cross them, in the order of the first of these rules; for ("*", "*") the smaller hash is first.
Namespaces with the same hash, such as 7 and 007, are one. `recipe.cross` may also have three namespaces: each set of
three is crossed once, in the order of the first rule that has it ("*" by their hashes); the hash is `cross` of that of
the first two and that of the third.

`recipe.interactions` are Vowpal Wabbit's -q, --cubic and --interactions, by the first byte of namespaces' names (a
blank for that without a name): all features with that byte are one group, in the order of the line. `recipe.crosses`
has the rules. Features, hashes and values are those of VW, including a feature's product with itself (-q aa), even
where its value is 1.

A line is bad if its crosses would give more than 65,536 features, or if more than 1,024 of its namespaces take part in
pairs, or more than 128 in crosses of three. `recipe.ignore` has first bytes of namespaces that are left out, after a
line was found to be valid.

Lines that consist of indicators named by their indices are read as in svmlight (`kernels.text_indicators`). As soon as
a block has another line, it goes through three simple loops: one finds where names can stop, 64 bytes at a time
(`kernels.text_stops`); one reads lines, jumping from stop to stop (`lines`); one hashes the names, sixteen at a time
(`names`). In a single loop every name would wait for the end of the one before it; in these the processor can work on
several at once. The second has separate loops for runs of plain features (`fast_path`): named by numbers, which need no
hash, or by texts. Crosses are in `crosses`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.canonical import CsrStats
from bayou.core.extras import Extras
from bayou.kernels.text_lanes import NAMES
from bayou.kernels.text_stops import WIDE
from bayou.recipe.feature_names import FeatureNames, NewNames
from bayou.recipe.groups import group_keys
from bayou.recipe.hashing import hash_bytes, id_bytes
from bayou.recipe.numbering import Numbering, known_features
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.vw.crosses import VWCrosser
from bayou.sources.formats.vw.higher_crosses import LETTERS, drop_letters
from bayou.sources.formats.vw.lines import WHAT, read_lines
from bayou.sources.formats.vw.names import (
    ALL_32,
    ALL_64,
    ALL_HASHED,
    EXACT,
    NUMBERS,
    count_new,
    describe_new,
    groups_of_spaces,
    hash_names,
    hash_spaces,
)
from bayou.sources.reading.blocks import TextBlock
from bayou.sources.reading.buffers import ThreadBuffers
from bayou.sources.reading.parsed_block import ParsedBlock, all_ones

# Size of the table of recent features, by which most repeats of new names are found.
_RECENT = 1 << 14


def new_parser(extras: Extras, *, dtype: str, tags: bool = False, groups: bool = False, **_: Any) -> VWParser:
    """Return the parser for a recipe; see `formats.registry`."""
    return VWParser(extras.required_recipe, extras.names, extras.numbering, dtype, tags, groups)


class VWParser:
    """Parser of blocks of VW text.

    With `names`, features that have no name yet are reported; in exact mode, those that are not in `numbering`.
    """

    def __init__(
        self,
        recipe: Recipe,
        names: FeatureNames | None = None,
        numbering: Numbering | None = None,
        dtype: str = "float32",
        tags: bool = False,
        groups: bool = False,
    ) -> None:
        self._way = EXACT if recipe.exact else ALL_HASHED if recipe.hash_all else NUMBERS
        self._mask = ALL_64 if recipe.exact else np.uint64(recipe.n_features - 1)
        self._crossing = VWCrosser(recipe, self._hash_space, self._mask)
        self._crossed = recipe.crossed
        self._has_cross, self._has_letters = bool(recipe.cross), bool(recipe.interactions)
        self._named = group_keys((*recipe.pairs, *recipe.cross), self._hash_space)
        self._dropped = np.zeros(LETTERS, np.bool_)
        self._dropped[[ord(letter) for letter in recipe.ignore]] = True
        self._names, self._numbering = names, numbering
        self._dtype, self._tags, self._groups = np.dtype(dtype), tags, groups
        self._scratch = ThreadBuffers()

    def _hash_space(self, name: str) -> int:
        text = name.encode()
        if name == " ":
            return 0
        if self._way == EXACT:
            return id_bytes(text)
        return int(text) % 2**32 if self._way == NUMBERS and text.isdigit() else hash_bytes(text)

    def parse(self, block: TextBlock) -> ParsedBlock:
        take = self._scratch.take
        stops = take("stops", block.size + 2 * WIDE, np.int32)
        ends = take("ends", block.size + 2 * WIDE, np.int32)
        # The shortest feature, a blank and a letter, takes two bytes; so does the shortest row, '|' and a newline.
        # NAMES features are written at a time, needed or not.
        capacity = block.size // 2 + 2 + NAMES
        indices = take("indices", capacity, np.uint64 if self._way == EXACT else np.uint32)
        values, name_spans = take("values", capacity, self._dtype), take("places", capacity, np.int64)
        spaces, indptr = take("spaces", capacity, np.int32), take("indptr", capacity, np.int64)
        features = indices, values, name_spans
        positions, labels = take("positions", capacity, np.int64), take("labels", capacity, np.float64)
        weights, tags = take("weights", capacity, np.float64), take("tags", (capacity, 2), np.int32)
        bad = np.empty((capacity, 3), np.int64)  # pages are allocated only as bad lines are written
        crossed, dropping = self._crossed, bool(self._dropped.any())
        last = -1 if crossed or dropping or self._way != NUMBERS else np.int64(self._mask)
        lines_of = indptr, labels, weights, tags, positions
        rows, nonzeros, named, lines, skipped, weighted, bounds, canonical = read_lines(
            block.data, block.size, stops, ends, self._way, last, lines_of, (*features, spaces), bad
        )
        if dropping:
            nonzeros = drop_letters(block.data, spaces, self._dropped, indptr[: rows + 1], features)
        parsed = ParsedBlock(
            indptr=indptr[: rows + 1].copy(),
            indices=indices[:nonzeros].copy(),
            values=all_ones(nonzeros, self._dtype) if bounds[3] and not crossed else values[:nonzeros].copy(),
            labels=labels[:rows].copy(),
            weights=weights[:rows].copy() if weighted else None,
            positions=positions[:rows].copy(),
            lines=lines,
            bounds=CsrStats(*bounds) if canonical else None,
        )
        parsed.note_codes(bad[:skipped], WHAT)
        tags, names = tags[:rows], (name_spans[:nonzeros], spaces[:nonzeros])
        bitmap = known_features(self._names, self._numbering, self._way == EXACT)
        if self._groups:
            parsed.groups = np.empty(nonzeros, np.uint8)
            groups_of_spaces(block.data, parsed.indices, *names, self._way, self._named, parsed.groups)
        if not crossed:
            origins = np.empty((0, 1), np.int32)
            if named:
                hash_names(block.data, parsed.indices, names[0], self._way, self._mask, True)
            else:
                bitmap = bitmap[:0]  # nothing could be new
        else:
            hash_names(block.data, parsed.indices, names[0], self._way, self._mask | ALL_32, False)
            origins, tags = self._cross(block, parsed, names[1], tags)
        if len(bitmap) and (news := count_new(parsed.indices, names[0], bitmap)):
            new_features = take("found", news, parsed.indices.dtype)
            spans = take("spans", (news, 4 * origins.shape[1]), np.int64)
            recent = np.zeros(_RECENT, np.uint64)
            news = describe_new(block.data, parsed.indices, names, origins, bitmap, recent, new_features, spans)
            kept_spans = spans[:news].astype(np.int32)
            parsed.new_names = NewNames(new_features[:news].copy(), kept_spans, block.data, block.data, b"^")
        if self._tags:
            text = block.data.data
            parsed.tags = [str(text[start:stop], "utf-8", "replace") for start, stop in tags.tolist()]
        return parsed

    def _cross(
        self, block: TextBlock, parsed: ParsedBlock, spaces: np.ndarray, tags: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Append the crosses of each row; return the features that each is made of, and the tags of the rows left."""
        keys = np.empty(len(spaces) if self._has_cross else 0, np.uint64)
        hash_spaces(block.data, spaces, self._way, keys)
        # The first byte of a namespace without a name is a blank or a bar
        letters = np.maximum(block.data.take(spaces if self._has_letters else spaces[:0]), ord(" "))
        origins, is_kept = self._crossing.add(parsed, keys, letters)
        return origins, tags[is_kept]
