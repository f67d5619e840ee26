"""Eight numbers at a time: a small vector type for Numba kernels, so that fast code still reads like its equation.

Numba leaves vectorising to LLVM, which gives up on loops with gathers or exponentials and may sum in any order.
Here a kernel says what it means: `Vec` values are eight float32 or float64 in a register; `+ - * /`, `max`, `min`
work on them and mix with plain numbers (which are cast to the vector's type); the rest are the functions below.
Every operation has one fixed order, so that results do not depend on where a row stands in a batch.

    x = load(values, k)                       # values[k : k + 8]
    mean, gain = gather_pairs(table, rows, k) # table[rows[k : k + 8], 0] and [..., 1]
    total(x * mean)                           # a plain number

Loads and stores are not checked against the ends of arrays: callers pad their scratch to a multiple of LANES.
"""

from __future__ import annotations

import math
import operator

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

LANES = 8

# Multiplications and additions may fuse; nothing else about IEEE arithmetic is given up.
_FUSE = ("contract",)


class Vec(types.Type):
    """Numba's name for LANES numbers of one type."""

    def __init__(self, scalar):
        self.scalar = scalar
        super().__init__(name=f"Vec({scalar} x {LANES})")


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        element = ir.FloatType() if fe_type.scalar == types.float32 else ir.DoubleType()
        super().__init__(dmm, fe_type, ir.VectorType(element, LANES))


def aligned_zeros(rows: int, columns: int, dtype: str) -> np.ndarray:
    """Zeros that cost nothing until touched, each row at the beginning of a cache line (64 bytes)."""
    item = np.dtype(dtype).itemsize
    room = np.zeros(rows * columns + 64 // item, dtype)
    skip = -room.ctypes.data % 64 // item
    return room[skip : skip + rows * columns].reshape(rows, columns)


def padded(n: int) -> int:
    """The multiple of LANES that holds n."""
    return -(-n // LANES) * LANES


@intrinsic
def frozen(typingctx, array):
    """An array as one that cannot be written to, like those of a batch: so that a kernel is not compiled for both."""

    def codegen(context, builder, signature, args):
        return impl_ret_borrowed(context, builder, signature.return_type, args[0])

    return array.copy(readonly=True)(array), codegen


def _shuffle(builder, a, b, lanes):
    """Lanes of a and b, counted through both."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes)))


def _splat(context, builder, value, kind, vec):
    if isinstance(kind, Vec):
        return value
    value = context.cast(builder, value, kind, vec.scalar)
    empty = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return _shuffle(builder, first, empty, [0] * LANES)


def _binary(op, emit):
    """Teach Numba `op` on two vectors, or on a vector and a number."""

    @infer_global(op)
    class _Typing(AbstractTemplate):
        def generic(self, args, kws):
            vecs = [a for a in args if isinstance(a, Vec)]
            if len(args) == 2 and vecs and all(a == vecs[0] or isinstance(a, types.Number) for a in args):
                return signature(vecs[0], *args)
            return None

    def lower(context, builder, sig, args):
        a, b = (_splat(context, builder, v, t, sig.return_type) for v, t in zip(args, sig.args, strict=True))
        return emit(builder, a, b)

    for pair in ((Vec, Vec), (Vec, types.Number), (types.Number, Vec)):
        lower_builtin(op, *pair)(lower)


_binary(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=_FUSE))
_binary(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=_FUSE))
_binary(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=_FUSE))
_binary(operator.truediv, lambda builder, a, b: builder.fdiv(a, b))
_binary(max, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))
_binary(min, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


def _address(context, builder, kind, array, *path):
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, list(path))


def _row_address(context, builder, sig, args, lane):
    """Where row `indices[start + lane]` of a table of pairs begins; args are (table, indices, start, ...)."""
    at = builder.add(args[2], ir.Constant(args[2].type, lane))
    row = builder.load(_address(context, builder, sig.args[1], args[1], at))
    two = ir.Constant(ir.IntType(64), 2)
    return _address(context, builder, sig.args[0], args[0], builder.mul(builder.zext(row, ir.IntType(64)), two))


@intrinsic
def load(typingctx, array, start):
    """array[start : start + LANES]"""
    vec = Vec(array.dtype)

    def codegen(context, builder, sig, args):
        kind = context.get_value_type(vec)
        pointer = _address(context, builder, sig.args[0], args[0], args[1])
        value = builder.load(builder.bitcast(pointer, kind.as_pointer()))
        value.align = context.get_abi_sizeof(kind.element)
        return value

    return vec(array, types.intp), codegen


@intrinsic
def store(typingctx, array, start, vec):
    """array[start : start + LANES] = vec"""

    def codegen(context, builder, sig, args):
        kind = args[2].type
        pointer = _address(context, builder, sig.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(pointer, kind.as_pointer())).align = context.get_abi_sizeof(kind.element)
        return context.get_dummy_value()

    return types.void(array, types.intp, vec), codegen


@intrinsic
def copy_lanes(typingctx, target, at, source, start):
    """target[at : at + LANES] = source[start : start + LANES], cast to target's type."""

    def codegen(context, builder, sig, args):
        kinds = [ir.VectorType(context.get_data_type(array.dtype), LANES) for array in (target, source)]
        to, of = (
            builder.bitcast(_address(context, builder, kind, array, place), vector.as_pointer())
            for kind, array, place, vector in zip(sig.args[::2], args[::2], args[1::2], kinds, strict=True)
        )
        value = builder.load(of)
        value.align = context.get_abi_sizeof(kinds[1].element)
        if target.dtype != source.dtype:
            narrower = target.dtype.bitwidth < source.dtype.bitwidth
            value = (builder.fptrunc if narrower else builder.fpext)(value, kinds[0])
        builder.store(value, to).align = context.get_abi_sizeof(kinds[0].element)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp), codegen


@intrinsic
def gather_pairs(typingctx, table, indices, start):
    """(first, second) of the pairs table[indices[start : start + LANES]]; table is C-contiguous (n, 2).

    Plain loads of one pair each: unlike the hardware's gather they see at once what was just stored, and rows
    that follow each other share features all the time.
    """
    vec = Vec(table.dtype)

    def codegen(context, builder, sig, args):
        pair = ir.VectorType(context.get_value_type(vec).element, 2)
        parts = []
        for lane in range(LANES):
            pointer = _row_address(context, builder, sig, args, lane)
            value = builder.load(builder.bitcast(pointer, pair.as_pointer()))
            value.align = context.get_abi_sizeof(pair.element)
            parts.append(value)
        # A register's halves hold pairs 0 1 | 4 5 and 2 3 | 6 7: one shuffle within halves makes each answer.
        quads = [_shuffle(builder, a, b, range(4)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        outer, inner = (_shuffle(builder, quads[k], quads[k + 2], range(8)) for k in (0, 1))
        first = _shuffle(builder, outer, inner, (0, 2, 8, 10, 4, 6, 12, 14))
        second = _shuffle(builder, outer, inner, (1, 3, 9, 11, 5, 7, 13, 15))
        return context.make_tuple(builder, sig.return_type, (first, second))

    return types.UniTuple(vec, 2)(table, indices, types.intp), codegen


@intrinsic
def fill(typingctx, vec, value):
    """A vector of vec's type with `value` in every lane."""

    def codegen(context, builder, sig, args):
        return _splat(context, builder, args[1], sig.args[1], sig.args[0])

    return vec(vec, value), codegen


@intrinsic
def scatter_pairs(typingctx, table, indices, start, first, second):
    """table[indices[start : start + LANES]] = pairs of first and second, lane after lane."""

    def codegen(context, builder, sig, args):
        pair = ir.VectorType(args[3].type.element, 2)
        low = _shuffle(builder, args[3], args[4], (0, 8, 1, 9, 4, 12, 5, 13))
        high = _shuffle(builder, args[3], args[4], (2, 10, 3, 11, 6, 14, 7, 15))
        for lane in range(LANES):
            half = low if lane % 4 < 2 else high
            at = 4 * (lane // 4) + 2 * (lane % 2)
            value = _shuffle(builder, half, half, (at, at + 1))
            pointer = builder.bitcast(_row_address(context, builder, sig, args, lane), pair.as_pointer())
            builder.store(value, pointer).align = context.get_abi_sizeof(pair.element)
        return context.get_dummy_value()

    return types.void(table, indices, types.intp, first, second), codegen


def _half_address(context, builder, sig, args, lane, half):
    """Where a half (0 or 1, an i64) of row `indices[start + lane]` of a table of eight columns begins."""
    at = builder.add(args[2], ir.Constant(args[2].type, lane))
    row = builder.zext(builder.load(_address(context, builder, sig.args[1], args[1], at)), ir.IntType(64))
    cell = builder.add(builder.shl(row, ir.Constant(row.type, 3)), builder.shl(half, ir.Constant(row.type, 2)))
    pointer = _address(context, builder, sig.args[0], args[0], cell)
    quad = ir.VectorType(context.get_data_type(sig.args[0].dtype), 4)
    return builder.bitcast(pointer, quad.as_pointer()), context.get_abi_sizeof(quad.element)


def _load_halves(context, builder, sig, args, lanes, half):
    """Halves of two rows side by side, and where they are."""
    places = [_half_address(context, builder, sig, args, lane, half) for lane in lanes]
    values = []
    for pointer, align in places:
        values.append(builder.load(pointer))
        values[-1].align = align
    return _shuffle(builder, *values, range(8)), places


# Which rows stand side by side: with these no number has to cross the middle of a register of eight float32.
_BESIDE = ((0, 4), (1, 5), (2, 6), (3, 7))


@intrinsic
def gather_sums(typingctx, table, indices, start):
    """(table[i, 0] + table[i, 4], table[i, 1] + table[i, 5]) of i = indices[start : start + LANES]; table is (n, 8)."""
    vec = Vec(table.dtype)

    def codegen(context, builder, sig, args):
        sums = []
        for lanes in _BESIDE:
            halves = [
                _load_halves(context, builder, sig, args, lanes, ir.Constant(ir.IntType(64), half))[0]
                for half in (0, 1)
            ]
            sums.append(builder.fadd(*halves))
        if table.dtype == types.float32:
            low, high = (_shuffle(builder, sums[k], sums[k + 1], (0, 1, 8, 9, 4, 5, 12, 13)) for k in (0, 2))
            first = _shuffle(builder, low, high, (0, 2, 8, 10, 4, 6, 12, 14))
            second = _shuffle(builder, low, high, (1, 3, 9, 11, 5, 7, 13, 15))
        else:  # a register holds four: rows 0 2, 1 3, and 4 6, 5 7
            even, odd = (_shuffle(builder, sums[k], sums[k + 2], (0, 1, 8, 9, 4, 5, 12, 13)) for k in (0, 1))
            first = _shuffle(builder, even, odd, (0, 8, 2, 10, 4, 12, 6, 14))
            second = _shuffle(builder, even, odd, (1, 9, 3, 11, 5, 13, 7, 15))
        return context.make_tuple(builder, sig.return_type, (first, second))

    return types.UniTuple(vec, 2)(table, indices, types.intp), codegen


@intrinsic
def add_to_half(typingctx, table, indices, start, half, first, second, third, most, count):
    """table[i, 4 half : 4 half + 3] += (first, second, third) for i = indices[start : start + LANES]; table is (n, 8).

    `third` and `most` are numbers; nothing becomes larger than `most`, whatever its sign. float32 is rounded up or down
    so that it is right on average; see `rounding_noise`.
    """

    def codegen(context, builder, sig, args):
        first, second = args[4:6]
        third, top = (_splat(context, builder, args[k], sig.args[k], sig.args[4]) for k in (6, 7))
        zero = ir.Constant(first.type, [0.0] * LANES)
        bottom = builder.fsub(zero, top)
        tail = _shuffle(builder, third, zero, (0, 8) * 4)
        narrow = table.dtype == types.float32
        if narrow:
            phases = _phases(context, builder, [sig.args[1]], [args[1], args[2], args[8]], first.type)
            low = _shuffle(builder, first, second, (0, 8, 1, 9, 4, 12, 5, 13))
            high = _shuffle(builder, first, second, (2, 10, 3, 11, 6, 14, 7, 15))
            steps = [
                _shuffle(builder, part, tail, mask)
                for part in (low, high)
                for mask in ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 8, 9, 6, 7, 12, 13))
            ]
        else:
            even = _shuffle(builder, first, second, (0, 8, 2, 10, 4, 12, 6, 14))
            odd = _shuffle(builder, first, second, (1, 9, 3, 11, 5, 13, 7, 15))
            steps = [
                _shuffle(builder, part, tail, mask)
                for mask in ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 8, 9, 6, 7, 12, 13))
                for part in (even, odd)
            ]
        for lanes, step in zip(_BESIDE, steps, strict=True):
            value, places = _load_halves(context, builder, sig, args, lanes, args[3])
            if narrow:
                phase = _shuffle(builder, phases, zero, [*[lanes[0]] * 3, 8, *[lanes[1]] * 3, 8])
                step = builder.fadd(step, builder.fmul(phase, _last_place(builder, value, 2.0**-32)))
            value = builder.fadd(value, step)
            value = builder.select(builder.fcmp_ordered("<", value, top), value, top)
            value = builder.select(builder.fcmp_ordered(">", value, bottom), value, bottom)
            for (pointer, align), part in zip(places, (range(4), range(4, 8)), strict=True):
                builder.store(_shuffle(builder, value, value, part), pointer).align = align
        return context.get_dummy_value()

    return types.void(table, indices, types.intp, types.intp, first, second, third, most, types.uint64), codegen


def _ask_for(builder, pointer):
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    # for reading (no dearer to write to later, and measurably cheaper to ask for), kept close, data
    builder.call(ask, [builder.bitcast(pointer, byte), *(ir.Constant(number, n) for n in (0, 3, 1))])


@intrinsic
def prefetch(typingctx, array, at):
    """Ask for array[at] to be brought into the cache."""

    def codegen(context, builder, sig, args):
        _ask_for(builder, _address(context, builder, sig.args[0], args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def prefetch_pairs(typingctx, table, indices, start):
    """Ask for table[indices[start : start + LANES]] to be brought into the cache."""

    def codegen(context, builder, sig, args):
        for lane in range(LANES):
            _ask_for(builder, _row_address(context, builder, sig, args, lane))
        return context.get_dummy_value()

    return types.void(table, indices, types.intp), codegen


@intrinsic
def like(typingctx, vec, other):
    """The lanes of vec in the type of other's."""

    def codegen(context, builder, sig, args):
        mine, theirs = (kind.scalar.bitwidth for kind in sig.args)
        if mine == theirs:
            return args[0]
        return (builder.fptrunc if mine > theirs else builder.fpext)(args[0], args[1].type)

    return other(vec, other), codegen


@intrinsic
def put(typingctx, vec, lane, value):
    """vec with one lane replaced."""

    def codegen(context, builder, sig, args):
        value = context.cast(builder, args[2], sig.args[2], sig.args[0].scalar)
        return builder.insert_element(args[0], value, builder.trunc(args[1], ir.IntType(32)))

    return vec(vec, types.intp, value), codegen


@intrinsic
def pick(typingctx, vec, lane):
    """One lane of vec."""

    def codegen(context, builder, sig, args):
        return builder.extract_element(args[0], builder.trunc(args[1], ir.IntType(32)))

    return vec.scalar(vec, types.intp), codegen


@intrinsic
def total(typingctx, vec):
    """The sum of all lanes, added in a tree."""

    def codegen(context, builder, sig, args):
        value, width = args[0], LANES
        while width > 1:
            width //= 2
            halves = (_shuffle(builder, value, value, range(at, at + width)) for at in (0, width))
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return vec.scalar(vec), codegen


@intrinsic
def any_above(typingctx, vec, limit):
    """Whether any lane of vec is greater than the number limit."""

    def codegen(context, builder, sig, args):
        other = _splat(context, builder, args[1], sig.args[1], sig.args[0])
        bits = builder.fcmp_ordered(">", args[0], other)
        word = builder.bitcast(bits, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    return types.boolean(vec, limit), codegen


@intrinsic
def where_above(typingctx, vec, limit, then, other):
    """`then` in the lanes where vec > limit, `other` elsewhere."""

    def codegen(context, builder, sig, args):
        bound = _splat(context, builder, args[1], sig.args[1], sig.args[0])
        return builder.select(builder.fcmp_ordered(">", args[0], bound), args[2], args[3])

    return vec(vec, limit, then, other), codegen


def _unary(name):
    """An LLVM intrinsic of one vector, such as llvm.sqrt."""

    @intrinsic
    def call(typingctx, vec):
        def codegen(context, builder, sig, args):
            bits = 32 if sig.args[0].scalar == types.float32 else 64
            kind = ir.FunctionType(args[0].type, [args[0].type])
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f{bits}")
            return builder.call(function, args)

        return vec(vec), codegen

    return call


sqrt = _unary("sqrt")
nearest = _unary("nearbyint")
magnitude = _unary("fabs")


@intrinsic
def _times_power_of_two(typingctx, vec, exponent):
    """vec * 2^exponent for whole exponents that keep the result normal: added to the exponent bits."""

    def codegen(context, builder, sig, args):
        bits, mantissa = (32, 23) if sig.args[0].scalar == types.float32 else (64, 52)
        whole = ir.VectorType(ir.IntType(bits), LANES)
        shift = builder.shl(builder.fptosi(args[1], whole), ir.Constant(whole, [mantissa] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(args[0], whole), shift), args[0].type)

    return vec(vec, exponent), codegen


@intrinsic
def rounding_noise(typingctx, value, ids, start, count):
    """Noise to add before rounding, so that rounding is right on average: uniform within half a last place of value.

    In lane k it is the golden-ratio sequence frac(count * 0.618...) shifted by a hash of ids[start + k]. Along such a
    sequence a step of a tenth of the last place is rounded up once in ten times almost on the dot, so that what is
    lost stays bounded, while independent random numbers would let it wander. For float64, whose last place is
    nobody's loss, the noise is 0.
    """

    def codegen(context, builder, sig, args):
        if sig.args[0].scalar == types.float64:
            return ir.Constant(args[0].type, [0.0] * LANES)
        noise = _phases(context, builder, sig.args[1:], args[1:], args[0].type)
        return builder.fmul(noise, _last_place(builder, args[0], 2.0**-32))

    return value(value, ids, types.intp, types.uint64), codegen


def _phases(context, builder, kinds, args, vector):
    """(ids[start + k] * hash + count * golden ratio) of (ids, start, count) as a signed 32-bit number, in each lane."""
    whole = ir.VectorType(ir.IntType(32), LANES)
    golden = 0x9E3779B1  # 2^32 over the golden ratio, made odd
    pointer = _address(context, builder, kinds[0], args[0], args[1])
    bits = builder.load(builder.bitcast(pointer, whole.as_pointer()))
    bits.align = 4
    bits = builder.mul(bits, ir.Constant(whole, [0x7FEB352D] * LANES))
    here = builder.mul(builder.trunc(args[2], ir.IntType(32)), ir.Constant(ir.IntType(32), golden))
    first = builder.insert_element(ir.Constant(whole, ir.Undefined), here, ir.Constant(ir.IntType(32), 0))
    return builder.sitofp(builder.add(bits, _shuffle(builder, first, first, [0] * LANES)), vector)


@intrinsic
def rounding_phases(typingctx, like, ids, start, count):
    """The sequence of `rounding_noise` before it is scaled to a value, in [-1/2, 1/2): a vector of like's type."""

    def codegen(context, builder, sig, args):
        phases = _phases(context, builder, sig.args[1:], args[1:], args[0].type)
        return builder.fmul(phases, ir.Constant(args[0].type, [2.0**-32] * LANES))

    return like(like, ids, types.intp, types.uint64), codegen


def _last_place(builder, value, times):
    """The last place of each float32 lane: its exponent bits are the power of two below |value|, 2^-23 of that."""
    whole = ir.VectorType(ir.IntType(32), LANES)
    bits = builder.and_(builder.bitcast(value, whole), ir.Constant(whole, [0x7F800000] * LANES))
    return builder.fmul(builder.bitcast(bits, value.type), ir.Constant(value.type, [2.0**-23 * times] * LANES))


@njit(forceinline=True)
def add_on_average(value, step, ids, start, count):
    """value + step, rounded up or down so that it is right on average; see `rounding_noise`."""
    return value + (step + rounding_noise(value, ids, start, count))


@njit(forceinline=True)
def rounding_phase(feature, count):
    """The sequence of `rounding_noise` as a number, in [-1/2, 1/2)."""
    bits = np.uint64(feature) * np.uint64(0x7FEB352D) + np.uint64(count) * np.uint64(0x9E3779B1)
    return np.float64(np.int32(np.uint32(bits))) * 2.0**-32


@intrinsic
def last_place(typingctx, value):
    """The last place of each float32 lane; for float64, whose last place is nobody's loss, 0."""

    def codegen(context, builder, sig, args):
        if sig.args[0].scalar == types.float64:
            return ir.Constant(args[0].type, [0.0] * LANES)
        return _last_place(builder, args[0], 1.0)

    return value(value), codegen


def _series(function, degree, low, high):
    """Coefficients of the polynomial that meets `function` at the Chebyshev points of [low, high]."""
    fit = np.polynomial.Chebyshev.interpolate(function, degree, domain=[low, high])
    return tuple(float(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


# 2^x = 1 + x (2^x - 1)/x, so that 2^0 is 1 to the last bit; relative error 1e-8, less than a float32's rounding.
_SERIES_32 = (1.0, *_series(lambda x: np.expm1(x * math.log(2.0)) / x, 5, -0.5, 0.5))
# In float64 interpolation would be rounding noise; Taylor's series is exact to 4e-18 at this length.
_SERIES_64 = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(14))
# The smallest powers keep 2^x normal, the largest keep (1 + 2^x)^2 finite.
POWERS_32 = (-126.0, 62.0)
POWERS_64 = (-1022.0, 510.0)


@njit(forceinline=True)
def _exp2_32(x):
    n = nearest(x)
    f = x - n
    f2 = f * f
    c = _SERIES_32
    # A tree (Estrin) instead of Horner's chain: the next row waits for this one.
    high = (f * c[5] + c[4]) + f2 * c[6]
    return _times_power_of_two((f * c[1] + c[0]) + f2 * ((f * c[3] + c[2]) + f2 * high), n)


@njit(forceinline=True)
def _exp2_64(x):
    n = nearest(x)
    f = x - n
    f2 = f * f
    f4 = f2 * f2
    c = _SERIES_64
    low = (f * c[1] + c[0]) + f2 * (f * c[3] + c[2])
    middle = (f * c[5] + c[4]) + f2 * (f * c[7] + c[6])
    high = (f * c[9] + c[8]) + f2 * (f * c[11] + c[10]) + f4 * (f * c[13] + c[12])
    return _times_power_of_two(low + f4 * (middle + f4 * high), n)


def exp2_within(x):
    """2^x for x known to lie within POWERS of its type."""
    raise NotImplementedError("exp2_within works inside jitted code only")


@overload(exp2_within, inline="always")
def _exp2_within(x):
    if not isinstance(x, Vec):
        return None
    if x.scalar == types.float32:
        return lambda x: _exp2_32(x)
    return lambda x: _exp2_64(x)


def exp2(x):
    """2^x for any x, held within POWERS of its type."""
    raise NotImplementedError("exp2 works inside jitted code only")


@overload(exp2, inline="always")
def _exp2(x):
    if not isinstance(x, Vec):
        return None
    if x.scalar == types.float32:
        return lambda x: _exp2_32(min(max(x, POWERS_32[0]), POWERS_32[1]))
    return lambda x: _exp2_64(min(max(x, POWERS_64[0]), POWERS_64[1]))


_EXP_UNIT = _series(np.exp, 6, 0.0, 1.0)  # relative error 7e-8


@njit(forceinline=True)
def _exp_unit_32(t):
    t2 = t * t
    c = _EXP_UNIT
    return (t * c[1] + c[0]) + t2 * ((t * c[3] + c[2]) + t2 * ((t * c[5] + c[4]) + t2 * c[6]))


def exp_unit(t):
    """e^t for t in [0, 1]: no rounding to powers of two, so a shorter chain than exp2."""
    raise NotImplementedError("exp_unit works inside jitted code only")


@overload(exp_unit, inline="always")
def _exp_unit(t):
    if not isinstance(t, Vec):
        return None
    if t.scalar == types.float32:
        return lambda t: _exp_unit_32(t)
    return lambda t: _exp2_64(t * 1.4426950408889634)


@intrinsic
def float_bits(typingctx, value):
    """The bits of a float64 as a whole number; those of positive numbers are in the numbers' own order."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen
