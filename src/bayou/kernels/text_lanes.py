"""Text in the lanes of vectors, and parsing of features that are plain names, several at a time.

Stops are the offsets of all bytes that cannot be in a name (`text_stops.find_stops`). Once they and the number of stops
per line are found, no feature and no line has to wait for the previous one. Other features are left to the caller.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from bayou.kernels.instructions import instruction
from bayou.kernels.numba_private import cgutils

BYTE, HALF, WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BLANK, _NEWLINE = 32, 10
# Names checked together; up to this many may be written after the last one.
NAMES = 16


def every(value, lanes, kind=HALF):
    """Return a constant vector with the same number in all lanes."""
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def spread(builder, value, lanes):
    """Return a vector with a runtime value in all lanes."""
    empty = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(HALF, 0))
    return builder.shuffle_vector(first, empty, every(0, lanes))


def call(builder, name, kind, *args):
    """Emit a call of an LLVM intrinsic and return its result."""
    function = ir.FunctionType(kind, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


def load(builder, address, lanes, kind=HALF, skip=0):
    """Load a vector of `lanes` numbers from an address, after the first `skip` numbers there."""
    vector = ir.VectorType(kind, lanes)
    address = builder.add(address, ir.Constant(WORD, skip * kind.width // 8))
    value = builder.load(builder.inttoptr(address, vector.as_pointer()))
    value.align = kind.width // 8
    return value


def store(builder, value, address):
    """Store the lanes of a vector at an address, unaligned."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = value.type.element.width // 8


def gather(builder, base, offsets, mask, kind=HALF):
    """Load a number at each of the offsets `offsets` from `base`; 0 in the lanes that are not `mask`.

    Uses one load per lane: few processors gather faster than that, and on those without gathers LLVM would make a
    branch for each lane of a masked gather.
    """
    lanes = offsets.type.count
    offsets = builder.select(mask, offsets, every(0, lanes))
    loaded = ir.Constant(ir.VectorType(kind, lanes), ir.Undefined)
    for lane in range(lanes):
        lane_index = ir.Constant(HALF, lane)
        offset = builder.zext(builder.extract_element(offsets, lane_index), WORD)
        value = builder.load(builder.inttoptr(builder.add(base, offset), kind.as_pointer()))
        value.align = 1
        loaded = builder.insert_element(loaded, value, lane_index)
    return builder.select(mask, loaded, every(0, lanes, kind))


def bits_of(builder, truths):
    """Return a vector of booleans as the bits of a word."""
    return builder.zext(builder.bitcast(truths, ir.IntType(truths.type.count)), WORD)


def none_of(builder, truths):
    """Return whether no lane is true."""
    return builder.icmp_unsigned("==", bits_of(builder, truths), ir.Constant(WORD, 0))


@instruction(lambda address, value: types.void(types.int64, types.uint64))
def fill_halves(context, builder, sig, args):
    """Write the lower half of a word NAMES times, starting at an address."""
    address, value = args
    store(builder, spread(builder, builder.trunc(value, HALF), NAMES), address)


@instruction(lambda address, value: types.void(types.int64, types.uint64))
def fill_words(context, builder, sig, args):
    """Write a word NAMES times, starting at an address."""
    address, value = args
    store(builder, spread(builder, value, NAMES), address)


@instruction(lambda base, stops, count, name_spans: types.boolean(types.int64, types.int64, types.int64, types.int64))
def are_names(context, builder, sig, args):
    """Return whether the next features, at most NAMES or `count`, are plain names, each followed by a blank or newline.

    `base` is the address of the text, `stops` that of the stop, a blank, after which they begin. The start and stop of
    each are written to the address `name_spans`.
    """
    base, stops, count, name_spans = args
    stops_before, ends = (load(builder, stops, NAMES, skip=skip) for skip in (0, 1))
    starts = builder.add(stops_before, every(1, NAMES))
    # Stops after the last one have arbitrary values.
    positions = ir.Constant(ir.VectorType(WORD, NAMES), list(range(NAMES)))
    is_requested = builder.icmp_signed("<", positions, spread(builder, count, NAMES))
    named = builder.and_(is_requested, builder.icmp_unsigned("<", starts, ends))
    next_bytes = builder.and_(gather(builder, base, ends, named), every(0xFF, NAMES))
    ended = (builder.icmp_unsigned("==", next_bytes, every(byte, NAMES)) for byte in (_BLANK, _NEWLINE))
    upper = builder.shl(builder.zext(ends, positions.type), every(32, NAMES, WORD))
    store(builder, builder.or_(upper, builder.zext(starts, positions.type)), name_spans)
    return none_of(builder, builder.and_(is_requested, builder.not_(builder.or_(*ended))))
