"""A vector type of eight numbers for Numba kernels, so that fast code still reads like its equations.

Numba leaves vectorization to LLVM, which gives up on loops with gathers or exponentials and may sum in any order.
Here a kernel is explicit: `Vec` values are eight float32 or float64 in a register; `+ - * /`, `max`, `min` work on
them and mix with plain numbers (which are cast to the vector's type); all other operations are the functions below, and
those of `gather`, `rounding` and `exponential`. Every operation has one fixed order, so that results do not depend on
the position of a row in a batch.

    x = load(values, k)                       # values[k : k + 8]
    mean, gain = gather_pairs(table, rows, k) # table[rows[k : k + 8], 0] and [..., 1]
    total(x * mean)                           # a plain number

Vectors of sixteen (`load_double_width`) support a part of this: arithmetic, `fill`, `store`, `total` and rounding.

Loads and stores have no bounds checks: callers pad their scratch to a multiple of LANES.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model

from bayou.kernels.numba_private import AbstractTemplate, cgutils, impl_ret_borrowed, infer_global

LANES = 8
WIDE = 2 * LANES

# Multiplications and additions may fuse; apart from that, arithmetic follows IEEE 754.
FUSE = ("contract",)


class Vec(types.Type):
    """Numba type of a vector of LANES (or WIDE) numbers of one type."""

    def __init__(self, scalar, lanes=LANES):
        self.scalar, self.lanes = scalar, lanes
        super().__init__(name=f"Vec({scalar} x {lanes})")


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        element = ir.FloatType() if fe_type.scalar == types.float32 else ir.DoubleType()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.lanes))


def pad_to_lanes(n: int) -> int:
    """Return the smallest multiple of LANES that is at least n."""
    return -(-n // LANES) * LANES


@intrinsic
def as_readonly(typingctx, array):
    """Return an array as a read-only one, like those of a batch, so that kernels are not compiled for both types."""

    def codegen(context, builder, signature, args):
        return impl_ret_borrowed(context, builder, signature.return_type, args[0])

    return array.copy(readonly=True)(array), codegen


def shuffle(builder, a, b, lanes):
    """Return a vector of the given lanes of a and b, where b's lanes are numbered after a's."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes)))


def splat(context, builder, value, kind, vec):
    if isinstance(kind, Vec):
        return value
    value = context.cast(builder, value, kind, vec.scalar)
    empty = ir.Constant(ir.VectorType(value.type, vec.lanes), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return shuffle(builder, first, empty, [0] * vec.lanes)


def _binary(op, emit):
    """Register `op` with Numba for two vectors, or for a vector and a number."""

    @infer_global(op)
    class _Typing(AbstractTemplate):
        def generic(self, args, kws):
            vecs = [a for a in args if isinstance(a, Vec)]
            if len(args) == 2 and vecs and all(a == vecs[0] or isinstance(a, types.Number) for a in args):
                return vecs[0](*args)
            return None

    def lower(context, builder, sig, args):
        a, b = (splat(context, builder, v, t, sig.return_type) for v, t in zip(args, sig.args, strict=True))
        return emit(builder, a, b)

    for pair in ((Vec, Vec), (Vec, types.Number), (types.Number, Vec)):
        lower_builtin(op, *pair)(lower)


_binary(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=FUSE))

_binary(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=FUSE))

_binary(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=FUSE))

_binary(operator.truediv, lambda builder, a, b: builder.fdiv(a, b))

_binary(max, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))

_binary(min, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


@intrinsic
def product(typingctx, a, b):
    """Return a * b, rounded: not fused with a following addition."""

    def codegen(context, builder, sig, args):
        return builder.fmul(*args)

    return a(a, b), codegen


def address(context, builder, kind, array, *path):
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, list(path))


def load_at(context, builder, kind, array, place, lanes=LANES):
    """Load `lanes` numbers of an array of this Numba type, from `place` on."""
    element = context.get_data_type(kind.dtype)
    pointer = address(context, builder, kind, array, place)
    value = builder.load(builder.bitcast(pointer, ir.VectorType(element, lanes).as_pointer()))
    value.align = context.get_abi_sizeof(element)
    return value


def store_at(context, builder, kind, array, place, value):
    pointer = address(context, builder, kind, array, place)
    place = builder.bitcast(pointer, value.type.as_pointer())
    builder.store(value, place).align = context.get_abi_sizeof(value.type.element)


@intrinsic
def load(typingctx, array, start):
    """Return array[start : start + LANES]."""

    def codegen(context, builder, sig, args):
        return load_at(context, builder, sig.args[0], *args)

    return Vec(array.dtype)(array, types.intp), codegen


@intrinsic
def load_double_width(typingctx, array, start):
    """Return array[start : start + WIDE]."""

    def codegen(context, builder, sig, args):
        return load_at(context, builder, sig.args[0], *args, WIDE)

    return Vec(array.dtype, WIDE)(array, types.intp), codegen


@intrinsic
def broadcast_load(typingctx, array, place):
    """Return array[place] in every lane."""
    vec = Vec(array.dtype)

    def codegen(context, builder, sig, args):
        value = builder.load(address(context, builder, sig.args[0], args[0], args[1]))
        return splat(context, builder, value, array.dtype, vec)

    return vec(array, types.intp), codegen


@intrinsic
def store(typingctx, array, start, vec):
    """Set array[start : start + lanes of vec] to vec."""

    def codegen(context, builder, sig, args):
        store_at(context, builder, sig.args[0], *args)
        return context.get_dummy_value()

    return types.void(array, types.intp, vec), codegen


@intrinsic
def copy_lanes(typingctx, target, at, source, start):
    """Set target[at : at + LANES] to source[start : start + LANES], cast to target's type."""

    def codegen(context, builder, sig, args):
        kinds = [ir.VectorType(context.get_data_type(array.dtype), LANES) for array in (target, source)]
        to, of = (
            builder.bitcast(address(context, builder, kind, array, place), vector.as_pointer())
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
def set_lanes(typingctx, target, at, value):
    """Set target[at : at + LANES] to value, cast to target's type."""

    def codegen(context, builder, sig, args):
        value = splat(context, builder, args[2], sig.args[2], Vec(target.dtype))
        store_at(context, builder, sig.args[0], *args[:2], value)
        return context.get_dummy_value()

    return types.void(target, types.intp, value), codegen


@intrinsic
def broadcast(typingctx, vec, value):
    """Return a vector of vec's type with `value` in every lane."""

    def codegen(context, builder, sig, args):
        return splat(context, builder, args[1], sig.args[1], sig.args[0])

    return vec(vec, value), codegen


@intrinsic
def cast_like(typingctx, vec, other):
    """Return vec, cast to the type of other."""

    def codegen(context, builder, sig, args):
        mine, theirs = (kind.scalar.bitwidth for kind in sig.args)
        if mine == theirs:
            return args[0]
        return (builder.fptrunc if mine > theirs else builder.fpext)(args[0], args[1].type)

    return other(vec, other), codegen


@intrinsic
def replace_lane(typingctx, vec, lane, value):
    """Return vec with one lane replaced."""

    def codegen(context, builder, sig, args):
        value = context.cast(builder, args[2], sig.args[2], sig.args[0].scalar)
        return builder.insert_element(args[0], value, builder.trunc(args[1], ir.IntType(32)))

    return vec(vec, types.intp, value), codegen


@intrinsic
def extract_lane(typingctx, vec, lane):
    """Return one lane of vec."""

    def codegen(context, builder, sig, args):
        return builder.extract_element(args[0], builder.trunc(args[1], ir.IntType(32)))

    return vec.scalar(vec, types.intp), codegen


@intrinsic
def sum_lanes(typingctx, vec):
    """Return the sum of all lanes, added in a tree."""

    def codegen(context, builder, sig, args):
        value, width = args[0], vec.lanes
        while width > 1:
            width //= 2
            halves = (shuffle(builder, value, value, range(at, at + width)) for at in (0, width))
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return vec.scalar(vec), codegen


def _rows_at(context, builder, kind, array, start, stride):
    """Load LANES vectors of an array, the first at `start`, each next one `stride` further."""
    there, found = start, []
    for _ in range(LANES):
        found.append(load_at(context, builder, kind, array, there))
        there = builder.add(there, stride)
    return found


@intrinsic
def transpose(typingctx, source, start, stride, target, at, step):
    """Transpose LANES x LANES numbers of source, in rows `stride` apart, into target, in rows `step` apart."""

    def codegen(context, builder, sig, args):
        rows, width = _rows_at(context, builder, sig.args[0], *args[:3]), 1
        while width < LANES:  # transpose blocks of twice the width
            upper = [lane + LANES - width if lane & width else lane for lane in range(LANES)]
            lower = [lane + LANES if lane & width else lane + width for lane in range(LANES)]
            for k in range(LANES):
                if not k & width:
                    pair = rows[k], rows[k + width]
                    rows[k], rows[k + width] = (shuffle(builder, *pair, lanes) for lanes in (upper, lower))
            width *= 2
        there = args[4]
        for row in rows:
            store_at(context, builder, sig.args[3], args[3], there, row)
            there = builder.add(there, args[5])
        return context.get_dummy_value()

    place = types.intp
    return types.void(source, place, place, target, place, place), codegen


@intrinsic
def sum_lanes_many(typingctx, array, start, stride):
    """Return `total` of LANES vectors of an array, the first at `start`, each next one `stride` further, as lanes."""
    vec = Vec(array.dtype)

    def codegen(context, builder, sig, args):
        vectors = _rows_at(context, builder, sig.args[0], *args)
        width = LANES
        while width > 1:  # each vector holds partial sums of LANES/width vectors, in `width` lanes each
            width //= 2
            lower = [lane for lane in range(2 * LANES) if lane // width % 2 == 0]
            upper = [lane + width for lane in lower]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [builder.fadd(shuffle(builder, a, b, lower), shuffle(builder, a, b, upper)) for a, b in pairs]
        return vectors[0]

    return vec(array, types.intp, types.intp), codegen


@intrinsic
def max_lane(typingctx, vec):
    """Return the largest of all lanes."""

    def codegen(context, builder, sig, args):
        value, width = args[0], LANES
        while width > 1:
            width //= 2
            a, b = (shuffle(builder, value, value, range(at, at + width)) for at in (0, width))
            value = builder.select(builder.fcmp_ordered(">", a, b), a, b)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return vec.scalar(vec), codegen


@intrinsic
def any_above(typingctx, vec, limit):
    """Return whether any lane of vec is greater than the number `limit`."""

    def codegen(context, builder, sig, args):
        other = splat(context, builder, args[1], sig.args[1], sig.args[0])
        bits = builder.fcmp_ordered(">", args[0], other)
        word = builder.bitcast(bits, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    return types.boolean(vec, limit), codegen


@intrinsic
def where_above(typingctx, vec, limit, then, other):
    """Return `then` in the lanes where vec > limit, `other` elsewhere."""

    def codegen(context, builder, sig, args):
        bound = splat(context, builder, args[1], sig.args[1], sig.args[0])
        return builder.select(builder.fcmp_ordered(">", args[0], bound), args[2], args[3])

    return vec(vec, limit, then, other), codegen


def _unary(name):
    """Build the function of an LLVM intrinsic of one vector, such as llvm.sqrt."""

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
def float_bits(typingctx, value):
    """Return the bits of a float64 as an integer; for positive numbers they are in the order of the numbers."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen
