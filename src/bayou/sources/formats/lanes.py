"""Several plain features of a line at a time, in the lanes of vectors: what stands between one stop and the next.

Stops are the places of all bytes that cannot be in a name (`stops.find_stops`). Once they are known, and how many of
them a line has, no feature and no line has to wait for the one before it. What is not plain is left to whoever asked.
"""

# ruff: noqa: ANN201 (what an intrinsic gives is said within)

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

HALF, WORD = ir.IntType(32), ir.IntType(64)
_BLANK, _NEWLINE = 32, 10
_ONE_AND_BLANK = int.from_bytes(b":1 ", "little")
_ONE_AND_NEWLINE = int.from_bytes(b":1\n", "little")
# How many names, and how many numbers, are looked at together; up to so many are written behind the last.
NAMES, NUMBERS = 16, 8


def every(value, lanes, kind=HALF):
    """The same number in all lanes."""
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def spread(builder, value, lanes):
    """A number that is not known before, in all lanes."""
    empty = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(HALF, 0))
    return builder.shuffle_vector(first, empty, every(0, lanes))


def call(builder, name, kind, *args):
    """What an LLVM intrinsic gives."""
    function = ir.FunctionType(kind, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


def load(builder, address, lanes, kind=HALF, skip=0):
    """So many numbers from an address on, without the first few."""
    vector = ir.VectorType(kind, lanes)
    address = builder.add(address, ir.Constant(WORD, skip * kind.width // 8))
    value = builder.load(builder.inttoptr(address, vector.as_pointer()))
    value.align = kind.width // 8
    return value


def store(builder, value, address):
    """All lanes, one after another."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = value.type.element.width // 8


def gather(builder, base, places, there, kind=HALF):
    """What stands at each of some places behind an address, 0 in the lanes that are not `there`."""
    lanes = places.type.count
    pointers = ir.VectorType(kind.as_pointer(), lanes)
    places = builder.zext(places, ir.VectorType(WORD, lanes))
    places = builder.inttoptr(builder.add(spread(builder, base, lanes), places), pointers)
    name = f"llvm.masked.gather.v{lanes}i{kind.width}.v{lanes}p0"
    other = every(0, lanes, kind)
    return call(builder, name, other.type, places, ir.Constant(HALF, 1), there, other)


def bits_of(builder, truths):
    """Truth values as the bits of a word."""
    return builder.zext(builder.bitcast(truths, ir.IntType(truths.type.count)), WORD)


def _first(builder, count, lanes):
    """The first lanes: so many of them, or all."""
    numbers = ir.Constant(ir.VectorType(WORD, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, spread(builder, count, lanes))


def _none_of(builder, truths):
    return builder.icmp_unsigned("==", bits_of(builder, truths), ir.Constant(WORD, 0))


@intrinsic
def fill_halves(typingctx, address, value):
    """Write the lower half of a word NAMES times from an address on."""

    def codegen(context, builder, signature, args):
        store(builder, spread(builder, builder.trunc(args[1], HALF), NAMES), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), codegen


@intrinsic
def fill_words(typingctx, address, value):
    """Write a word NAMES times from an address on."""

    def codegen(context, builder, signature, args):
        store(builder, spread(builder, args[1], NAMES), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), codegen


@intrinsic
def are_names(typingctx, base, stops, count, places):
    """Whether the next features, `count` of them or NAMES, are names alone, with a blank or the line's end behind them.

    `base` and `stops` are addresses, of the text and of the stop, a blank, behind which they begin. Where each starts
    and stops is written to the address `places`.
    """

    def codegen(context, builder, signature, args):
        base, stops, count, places = args
        before, ends = (load(builder, stops, NAMES, skip=skip) for skip in (0, 1))
        starts = builder.add(before, every(1, NAMES))
        # Behind the last stop of all stands anything.
        asked = _first(builder, count, NAMES)
        named = builder.and_(asked, builder.icmp_unsigned("<", starts, ends))
        behind = builder.and_(gather(builder, base, ends, named), every(0xFF, NAMES))
        ended = (builder.icmp_unsigned("==", behind, every(byte, NAMES)) for byte in (_BLANK, _NEWLINE))
        words = ir.VectorType(WORD, NAMES)
        upper = builder.shl(builder.zext(ends, words), every(32, NAMES, WORD))
        store(builder, builder.or_(upper, builder.zext(starts, words)), places)
        return _none_of(builder, builder.and_(asked, builder.not_(builder.or_(*ended))))

    return types.boolean(types.int64, types.int64, types.int64, types.int64), codegen


def _numbers(builder, words, counts):
    """(numbers, which are some) of the first bytes of each word, as `scan.short_number` has them."""

    def all_(value):
        return every(value, NUMBERS, WORD)

    room = builder.sub(all_(64), builder.shl(counts, all_(3)))
    x = builder.shl(builder.xor(words, all_(0x3030303030303030)), builder.and_(room, all_(63)))
    strange = builder.or_(builder.add(x, all_(0x7676767676767676)), x)
    strange = builder.and_(strange, all_(0x8080808080808080))
    short = builder.icmp_unsigned("<", builder.sub(counts, all_(1)), all_(8))
    fine = builder.and_(short, builder.icmp_unsigned("==", strange, all_(0)))
    x = builder.add(builder.mul(x, all_(10)), builder.lshr(x, all_(8)))
    upper = builder.mul(builder.and_(x, all_(0x000000FF000000FF)), all_(100 + (1_000_000 << 32)))
    lower = builder.and_(builder.lshr(x, all_(16)), all_(0x000000FF000000FF))
    lower = builder.mul(lower, all_(1 + (10_000 << 32)))
    return builder.lshr(builder.add(upper, lower), all_(32)), fine


@intrinsic
def are_numbers(typingctx, base, stops, count, indices, last, previous):
    """(whether they are, the last of them, whether they ascend) of the next features, `count` or NUMBERS, if all are
    a number up to `last` and `:1`.

    `base` and `stops` are addresses, of the text and of the stop, a blank, behind which they begin. The numbers are
    written to the address `indices`; they ascend if each is larger than the one before, the first than `previous`.
    """
    result = types.Tuple((types.boolean, types.int64, types.boolean))

    def codegen(context, builder, signature, args):
        base, stops, count, indices, last, previous = args
        words = ir.VectorType(WORD, NUMBERS)

        def lanes_of(a, b, lanes):
            return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(HALF, NUMBERS), list(lanes)))

        both = load(builder, stops, 2 * NUMBERS)
        blanks, colons = (lanes_of(both, both, range(k, 2 * NUMBERS, 2)) for k in (0, 1))
        starts = builder.add(blanks, every(1, NUMBERS))
        asked = _first(builder, count, NUMBERS)
        there = builder.and_(asked, builder.icmp_unsigned("<", starts, colons))
        behind = builder.and_(gather(builder, base, colons, there), every(0xFFFFFF, NUMBERS))
        ends = (builder.icmp_unsigned("==", behind, every(end, NUMBERS)) for end in (_ONE_AND_BLANK, _ONE_AND_NEWLINE))
        text = gather(builder, base, starts, there, WORD)
        numbers, fine = _numbers(builder, text, builder.zext(builder.sub(colons, starts), words))
        fine = builder.and_(fine, builder.icmp_unsigned("<=", numbers, spread(builder, last, NUMBERS)))
        fine = _none_of(builder, builder.and_(asked, builder.not_(builder.and_(fine, builder.or_(*ends)))))
        store(builder, builder.trunc(numbers, ir.VectorType(HALF, NUMBERS)), indices)
        before = lanes_of(spread(builder, previous, NUMBERS), numbers, [0, *range(NUMBERS, 2 * NUMBERS - 1)])
        ascend = _none_of(builder, builder.and_(asked, builder.icmp_signed("<=", numbers, before)))
        most = ir.Constant(WORD, NUMBERS)
        count = builder.select(builder.icmp_signed("<", count, most), count, most)
        final = builder.and_(builder.sub(count, ir.Constant(WORD, 1)), ir.Constant(WORD, NUMBERS - 1))
        found = (fine, builder.extract_element(numbers, final), ascend)
        return context.make_tuple(builder, signature.return_type, found)

    return result(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), codegen
