"""Crosses: features that combine several others. Their value is the product of the others' values.

A recipe specifies them by names (`cross`), or by first letters as Vowpal Wabbit does (`interactions`).

    cross           ("user", "ad"), ("user", "*"), ("user", "ad", "hour"): two or three columns or namespaces by their
                    names; "*" is every other one
    interactions    "ab", "abc", "::": all features whose namespace or column begins with a, times all with b; ":" is
                    any letter. Two letters are VW's -q, three its --cubic, any number its --interactions
    ranges          ("a", 1, 10): features 1 to 10 of svmlight data form the namespace a. Features in no range form
                    one without a name

The hash of a cross is computed from those of its features by `hashing.cross`, one after the other (from ids, by
`hashing.cross64`); its name is theirs, joined by `feature_names.AND`. This module decides which crosses there are; the
kernels that add them to rows belong to the formats (`sources.table.assembly`, `sources.formats.vw`, `sources.rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

from bayou.core.checks import check_int, check_iterable, check_str, check_str_list, shortened_repr
from bayou.core.errors import BadInput
from bayou.core.spelling import option

if TYPE_CHECKING:
    from bayou.recipe.recipe import Recipe

ANY, ANY_LETTER = "*", ":"
# Maximum number of features in a cross: by letters, and by names.
MOST_PARTS, MOST_NAMED = 8, 3
# Maximum number of crosses in a row, to bound its length.
MAX_ROW_CROSSES = 1 << 16
# Roles of columns without features to cross.
_FEATURELESS = ("label", "weight", "ignored", "id")


def no_lanes() -> str:
    """Return the error message for pair lanes requested of a learner that has none."""
    how = f"{option('cross')} and {option('interactions')}"
    return f"lanes of pairs need two classes; for several classes or numbers, {how} make features of pairs."


def checked_crosses(value: Any) -> tuple[tuple[str, ...], ...]:
    """Return the crosses as tuples of two or three names, without repetitions; raise BadInput if one is invalid."""
    crosses = []
    for cross in check_iterable("cross", value, "pairs of names"):
        names = () if isinstance(cross, str) else tuple(check_iterable("cross", cross, "pairs of names"))
        if not 2 <= len(names) <= MOST_NAMED or not all(isinstance(name, str) and name for name in names):
            raise BadInput(
                f"cross holds {shortened_repr(cross)}; each must be a pair or triple of names, such as ('user', 'ad')."
            )
        for name in names:
            check_str("a name in cross", name)
        named = [name for name in names if name != ANY]
        if len(names) > 2 and len(set(named)) < len(named):
            raise BadInput(f"cross holds {shortened_repr(cross)}; three names must differ from one another.")
        crosses.append(names)
    return tuple(dict.fromkeys(crosses))


def checked_interactions(value: Any) -> tuple[str, ...]:
    """Return interactions of two to MOST_PARTS first letters, without repetitions; raise BadInput if invalid."""
    interactions = check_str_list("interactions", value, "a list of first letters such as 'ab'")
    for letters in interactions:
        if not 2 <= len(letters) <= MOST_PARTS or not (letters.isascii() and letters.isprintable()):
            raise BadInput(
                f"interactions hold {letters!r}; give the first letters of two to {MOST_PARTS} namespaces or columns, "
                "such as ab."
            )
        if ANY_LETTER in letters and len(letters) > 3:
            raise BadInput(f"interactions hold {letters!r}; more than three letters must be written without a colon.")
    return tuple(dict.fromkeys(interactions))


def checked_ranges(value: Any, n_features: int) -> tuple[tuple[str, int, int], ...]:
    """Return the ranges (name, first, last) sorted by first feature; raise BadInput if two overlap."""
    ranges = []
    for some in check_iterable("ranges", value, "names with their first and last features"):
        parts = () if isinstance(some, str) else check_iterable("ranges", some, "a name, a first and a last feature")
        if len(parts) != 3 or not isinstance(parts[0], str) or not parts[0].strip() or parts[0] == ANY:
            raise BadInput(
                f"ranges hold {shortened_repr(some)}; each is a name, a first and a last feature: ('a', 1, 10)."
            )
        check_str("a name in ranges", parts[0])
        first = check_int(f"the first feature of range {parts[0]}", parts[1], 0, n_features - 1)
        last = check_int(f"the last feature of range {parts[0]}", parts[2], first, n_features - 1)
        ranges.append((parts[0], first, last))
    ranges.sort(key=lambda one: one[1])
    for (one, _, end), (other, start, _) in pairwise(ranges):
        if start <= end:
            raise BadInput(
                f"the ranges {one} and {other} both have feature {start}; a feature may be in only one range."
            )
    if len({name for name, _, _ in ranges}) < len(ranges):
        raise BadInput("two ranges have the same name; give each a different one.")
    return tuple(ranges)


def check_ranges(recipe: Recipe) -> None:
    """Raise BadInput if the ranges of a recipe do not fit its crosses or its kind of data."""
    if recipe.kind != "svmlight":
        if recipe.ranges:
            raise BadInput(f"ranges apply to svmlight's numbered features; {recipe.kind} data have names.")
        return
    if recipe.crossed and not recipe.ranges:
        raise BadInput(
            "cross needs columns or namespaces, and svmlight data have neither; ranges make namespaces of features, as "
            f"{option('ranges', 'a=1-10,b=11-500')} does."
        )
    if recipe.crossed and recipe.exact:
        raise BadInput("with exact, svmlight's features keep their numbers, and none are left for crosses.")
    own_names = [name for name, _, _ in recipe.ranges]
    for name in (name for names in recipe.cross for name in names):
        if name not in (ANY, " ", *own_names):
            raise BadInput(f"cross names {name!r}, but the ranges are {', '.join(own_names)}.")


def check_letter(name: str) -> None:
    """Raise BadInput if a name in `ignore` is not a single letter, as VW text requires."""
    if len(name) != 1 or not name.isascii():
        raise BadInput(
            f"ignore is {name!r}, but in VW text it takes first letters of namespaces, one per entry: {name[:1]} "
            f"ignores all that begin with {name[:1]}. Vowpal Wabbit reads {name} as {', '.join(name)}: write that."
        )


def written_out(interactions: Sequence[str], letters: Iterable[str]) -> list[str]:
    """Return the interactions of data with these first letters, colons expanded, as Vowpal Wabbit 9 does.

    Of terms that differ only in order, the alphabetically first is kept. This is done before colons are expanded, with
    the colon as a character of its own, and again afterwards.

    >>> written_out(["ba", "::"], "ab"), written_out(["cb:"], "abc")
    (['aa', 'ab', 'bb'], ['bbc', 'bcc', 'cba'])
    """
    alphabet = sorted(letters)
    terms = [term for interaction in _once(interactions) for term in _without_colons(interaction, alphabet)]
    return sorted(_once(terms), key=lambda term: (len(term), term))


def _once(terms: Iterable[str]) -> list[str]:
    """Keep the alphabetically first of the terms with the same letters; sort a term's letters if one repeats."""
    kept: dict[str, str] = {}
    for term in terms:
        same = "".join(sorted(term))
        own = same if len(set(term)) < len(term) else term
        kept[same] = min(kept.get(same, own), own)
    return list(kept.values())


def _without_colons(term: str, letters: list[str]) -> list[str]:
    """Return a term with its colons replaced by letters in all ways, ascending (or descending, if there are three)."""
    terms = []
    for some in combinations_with_replacement(letters, term.count(ANY_LETTER)):
        wild = iter(some[::-1] if len(some) == 3 else some)
        terms.append("".join(next(wild) if letter == ANY_LETTER else letter for letter in term))
    return terms


def choices(rules: Iterable[Sequence[Sequence[int]]]) -> Iterator[tuple[int, ...]]:
    """Yield every choice of distinct numbers, one from each list of a rule; each set once, in its first order.

    >>> list(choices([[[1, 2], [1, 2, 3]], [[3], [2]]]))
    [(1, 2), (1, 3), (2, 3)]
    """
    seen = set()
    for rule in rules:
        for chosen in product(*rule):
            if len(set(chosen)) == len(chosen) and frozenset(chosen) not in seen:
                seen.add(frozenset(chosen))
                yield chosen


def column_crosses(recipe: Recipe) -> list[tuple[int, ...]]:
    """Return the crosses as tuples of column numbers in the recipe, each set once, with "*" expanded.

    "*" stands for every other column that gives features. Interactions select columns by the first letters of their
    names; a column is not crossed with itself.
    """
    return list(choices(_column_rules(recipe)))


def _column_rules(recipe: Recipe) -> Iterator[list[list[int]]]:
    columns = recipe.columns or ()
    places = {column.name: k for k, column in enumerate(columns)}
    features = [k for k, column in enumerate(columns) if column.role not in _FEATURELESS]
    for names in recipe.cross:
        if len(names) == 2 and names[0] == names[1] != ANY:
            raise BadInput(f"cross pairs the column {names[0]!r} with itself; name two different columns.")
        for name in names:
            if name != ANY and (name not in places or places[name] not in features):
                role = columns[places[name]].role if name in places else "not there"
                raise BadInput(f"cross names the column {name!r}, which gives no features: it is {role}.")
        yield [features if name == ANY else [places[name]] for name in names]
    begin: dict[str, list[int]] = {}
    for k in features:
        begin.setdefault(columns[k].name[:1], []).append(k)
    for letters in recipe.interactions:
        if strange := set(letters) - {ANY_LETTER, *begin}:
            raise BadInput(
                f"interactions hold {letters!r}, but no column that gives features begins with {min(strange)!r}."
            )
    for term in written_out(recipe.interactions, begin):
        yield [begin[letter] for letter in term]


def check_column_crosses(recipe: Recipe) -> int:
    """Return the minimum number of crosses in a row; raise BadInput if it exceeds MAX_ROW_CROSSES.

    >>> from bayou.recipe.recipe import Column, Recipe
    >>> columns = tuple(Column(name, "category") for name in "abcd")
    >>> check_column_crosses(Recipe(kind="table", columns=columns, cross=[("*", "*"), ("a", "b", "c")]))
    7
    """
    # A date gives one feature per part, any other column at least one.
    least = [len(column.parts) if column.role == "date" else 1 for column in recipe.columns or ()]
    total = sum(prod(least[c] for c in chosen) for chosen in column_crosses(recipe))
    if total > MAX_ROW_CROSSES:
        raise BadInput(
            f"the crosses would give every row {total:,} features, but the limit is {MAX_ROW_CROSSES:,}; "
            "cross fewer columns."
        )
    return total


def in_words(recipe: Recipe) -> str:
    """Return a sentence on the number of crosses in a row and its limit; "" if there are none."""
    if not recipe.crossed:
        return ""
    if recipe.kind == "table":
        least = f"{check_column_crosses(recipe):,}"
        return f"crosses give a row {least} features or more; a row of more than {MAX_ROW_CROSSES:,} is skipped"
    return f"crosses may give a line up to {MAX_ROW_CROSSES:,} features; a line of more is skipped"
