"""A vector type of eight numbers for Numba kernels, so that fast code still reads like its equations.

Numba leaves vectorization to LLVM, which gives up on loops with gathers or exponentials and may sum in any order.
Here a kernel is explicit: `Vec` values are eight float32 or float64 in a register; `+ - * /`, `max`, `min` work on
them and mix with plain numbers (which are cast to the vector's type); all other operations are the functions below, and
those of `gather`, `rounding` and `exponential`. Every operation has one fixed order, so that results do not depend on
the position of a row in a batch.

    x = load(values, k)                       # values[k : k + 8]
    mean, gain = gather_pairs(table, rows, k) # table[rows[k : k + 8], 0] and [..., 1]
    total(x * mean)                           # a plain number

Vectors of sixteen (`load_double_width`) support a part of this: arithmetic, `broadcast`, `store`, `sum_lanes` and
rounding.

Loads and stores have no bounds checks: callers pad their scratch to a multiple of LANES.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model

from bayou.kernels.instructions import instruction
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


@instruction(lambda array: array.copy(readonly=True)(array))
def as_readonly(context, builder, sig, args):
    """Return an array as a read-only one, like those of a batch, so that kernels are not compiled for both types."""
    return impl_ret_borrowed(context, builder, sig.return_type, args[0])


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


@instruction(lambda a, b: a(a, b))
def product(context, builder, sig, args):
    """Return a * b, rounded: not fused with a following addition."""
    return builder.fmul(*args)


def address(context, builder, kind, array, *path):
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, list(path))


def load_at(context, builder, kind, array, offset, lanes=LANES):
    """Load `lanes` numbers of an array of this Numba type, from `offset` on."""
    element = context.get_data_type(kind.dtype)
    pointer = address(context, builder, kind, array, offset)
    value = builder.load(builder.bitcast(pointer, ir.VectorType(element, lanes).as_pointer()))
    value.align = context.get_abi_sizeof(element)
    return value


def store_at(context, builder, kind, array, offset, value):
    pointer = address(context, builder, kind, array, offset)
    offset = builder.bitcast(pointer, value.type.as_pointer())
    builder.store(value, offset).align = context.get_abi_sizeof(value.type.element)


@instruction(lambda array, start: Vec(array.dtype)(array, types.intp))
def load(context, builder, sig, args):
    """Return array[start : start + LANES]."""
    return load_at(context, builder, sig.args[0], *args)


@instruction(lambda array, start: Vec(array.dtype, WIDE)(array, types.intp))
def load_double_width(context, builder, sig, args):
    """Return array[start : start + WIDE]."""
    return load_at(context, builder, sig.args[0], *args, WIDE)


@instruction(lambda array, index: Vec(array.dtype)(array, types.intp))
def broadcast_load(context, builder, sig, args):
    """Return array[index] in every lane."""
    value = builder.load(address(context, builder, sig.args[0], args[0], args[1]))
    return splat(context, builder, value, sig.args[0].dtype, sig.return_type)


@instruction(lambda array, start, vec: types.void(array, types.intp, vec))
def store(context, builder, sig, args):
    """Set array[start : start + lanes of vec] to vec."""
    store_at(context, builder, sig.args[0], *args)


@instruction(lambda target, offset, source, start: types.void(target, types.intp, source, types.intp))
def copy_lanes(context, builder, sig, args):
    """Set target[offset : offset + LANES] to source[start : start + LANES], cast to target's type."""
    kinds = [ir.VectorType(context.get_data_type(array.dtype), LANES) for array in (sig.args[0], sig.args[2])]
    to, of = (
        builder.bitcast(address(context, builder, kind, array, offset), vector.as_pointer())
        for kind, array, offset, vector in zip(sig.args[::2], args[::2], args[1::2], kinds, strict=True)
    )
    value = builder.load(of)
    value.align = context.get_abi_sizeof(kinds[1].element)
    if sig.args[0].dtype != sig.args[2].dtype:
        narrower = sig.args[0].dtype.bitwidth < sig.args[2].dtype.bitwidth
        value = (builder.fptrunc if narrower else builder.fpext)(value, kinds[0])
    builder.store(value, to).align = context.get_abi_sizeof(kinds[0].element)


@instruction(lambda target, offset, value: types.void(target, types.intp, value))
def set_lanes(context, builder, sig, args):
    """Set target[offset : offset + LANES] to value, cast to target's type."""
    value = splat(context, builder, args[2], sig.args[2], Vec(sig.args[0].dtype))
    store_at(context, builder, sig.args[0], *args[:2], value)


@instruction(lambda vec, value: vec(vec, value))
def broadcast(context, builder, sig, args):
    """Return a vector of vec's type with `value` in every lane."""
    return splat(context, builder, args[1], sig.args[1], sig.args[0])


@instruction(lambda vec, other: other(vec, other))
def cast_like(context, builder, sig, args):
    """Return vec, cast to the type of other."""
    width, target_width = (kind.scalar.bitwidth for kind in sig.args)
    if width == target_width:
        return args[0]
    return (builder.fptrunc if width > target_width else builder.fpext)(args[0], args[1].type)


@instruction(lambda vec, lane, value: vec(vec, types.intp, value))
def replace_lane(context, builder, sig, args):
    """Return vec with one lane replaced."""
    value = context.cast(builder, args[2], sig.args[2], sig.args[0].scalar)
    return builder.insert_element(args[0], value, builder.trunc(args[1], ir.IntType(32)))


@instruction(lambda vec, lane: vec.scalar(vec, types.intp))
def extract_lane(context, builder, sig, args):
    """Return one lane of vec."""
    return builder.extract_element(args[0], builder.trunc(args[1], ir.IntType(32)))


@instruction(lambda vec: vec.scalar(vec))
def sum_lanes(context, builder, sig, args):
    """Return the sum of all lanes, added in a tree."""
    value, width = args[0], sig.args[0].lanes
    while width > 1:
        width //= 2
        halves = (shuffle(builder, value, value, range(start, start + width)) for start in (0, width))
        value = builder.fadd(*halves)
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


def _rows_at(context, builder, kind, array, start, stride):
    """Load LANES vectors of an array, the first at `start`, each next one `stride` further."""
    offset, vectors = start, []
    for _ in range(LANES):
        vectors.append(load_at(context, builder, kind, array, offset))
        offset = builder.add(offset, stride)
    return vectors


@instruction(
    lambda source, start, stride, target, offset, step: types.void(
        source, types.intp, types.intp, target, types.intp, types.intp
    )
)
def transpose(context, builder, sig, args):
    """Transpose LANES x LANES numbers of source, in rows `stride` apart, into target, in rows `step` apart."""
    rows, width = _rows_at(context, builder, sig.args[0], *args[:3]), 1
    while width < LANES:  # transpose blocks of twice the width
        upper = [lane + LANES - width if lane & width else lane for lane in range(LANES)]
        lower = [lane + LANES if lane & width else lane + width for lane in range(LANES)]
        for k in range(LANES):
            if not k & width:
                pair = rows[k], rows[k + width]
                rows[k], rows[k + width] = (shuffle(builder, *pair, lanes) for lanes in (upper, lower))
        width *= 2
    offset = args[4]
    for row in rows:
        store_at(context, builder, sig.args[3], args[3], offset, row)
        offset = builder.add(offset, args[5])


@instruction(lambda array, start, stride: Vec(array.dtype)(array, types.intp, types.intp))
def sum_lanes_many(context, builder, sig, args):
    """Return `sum_lanes` of LANES vectors of an array as lanes: the first at `start`, each next `stride` further."""
    vectors = _rows_at(context, builder, sig.args[0], *args)
    width = LANES
    while width > 1:  # each vector holds partial sums of LANES/width vectors, in `width` lanes each
        width //= 2
        lower = [lane for lane in range(2 * LANES) if lane // width % 2 == 0]
        upper = [lane + width for lane in lower]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [builder.fadd(shuffle(builder, a, b, lower), shuffle(builder, a, b, upper)) for a, b in pairs]
    return vectors[0]


@instruction(lambda vec: vec.scalar(vec))
def max_lane(context, builder, sig, args):
    """Return the largest of all lanes."""
    value, width = args[0], LANES
    while width > 1:
        width //= 2
        a, b = (shuffle(builder, value, value, range(start, start + width)) for start in (0, width))
        value = builder.select(builder.fcmp_ordered(">", a, b), a, b)
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


@instruction(lambda vec, limit: types.boolean(vec, limit))
def any_above(context, builder, sig, args):
    """Return whether any lane of vec is greater than the number `limit`."""
    bound = splat(context, builder, args[1], sig.args[1], sig.args[0])
    bits = builder.fcmp_ordered(">", args[0], bound)
    word = builder.bitcast(bits, ir.IntType(LANES))
    return builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))


@instruction(lambda vec, limit, above, rest: vec(vec, limit, above, rest))
def where_above(context, builder, sig, args):
    """Return `above` in the lanes where vec > limit, `rest` elsewhere."""
    bound = splat(context, builder, args[1], sig.args[1], sig.args[0])
    return builder.select(builder.fcmp_ordered(">", args[0], bound), args[2], args[3])


def _unary(name):
    """Build the function of an LLVM intrinsic of one vector, such as llvm.sqrt."""

    @instruction(lambda vec: vec(vec))
    def call(context, builder, sig, args):
        bits = 32 if sig.args[0].scalar == types.float32 else 64
        kind = ir.FunctionType(args[0].type, [args[0].type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f{bits}")
        return builder.call(function, args)

    return call


sqrt = _unary("sqrt")

nearest = _unary("nearbyint")

magnitude = _unary("fabs")


@instruction(lambda value: types.uint64(types.float64))
def float_bits(context, builder, sig, args):
    """Return the bits of a float64 as an integer; for positive numbers they are in the order of the numbers."""
    return builder.bitcast(args[0], ir.IntType(64))
