"""Search for bytes at which names and numbers can stop, 64 bytes of text at a time, before parsing."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bayou.kernels.compiling import kernel
from bayou.kernels.numba_private import cgutils
from bayou.kernels.parse_text import address_of, trailing_zeros

BLANK, COLON, BAR, NEWLINE = 32, 58, 124, 10
ONE = np.uint64(1)
# Bytes scanned together.
WIDE = 64


def _classifier(wide, emit):
    """Build an intrinsic that classifies `wide` bytes at an address: bit k of its result is for byte k."""

    def classify(typingctx, address):
        def codegen(context, builder, signature, args):
            vector = ir.VectorType(ir.IntType(8), wide)
            text = builder.load(builder.inttoptr(args[0], vector.as_pointer()))
            text.align = 1
            found = emit(builder, text, lambda byte: ir.Constant(vector, [byte] * wide))
            found = builder.bitcast(found, ir.IntType(wide))
            return found if wide == 64 else builder.zext(found, ir.IntType(64))

        return types.uint64(types.int64), codegen

    return intrinsic(classify)


def _emit_stops(builder, text, every):
    low = builder.icmp_unsigned("<=", text, every(BLANK))
    marks = builder.or_(*(builder.icmp_unsigned("==", text, every(byte)) for byte in (COLON, BAR)))
    return builder.or_(low, marks)


def _emit_newlines(builder, text, every):
    return builder.icmp_unsigned("==", text, every(NEWLINE))


def _emit_others(builder, text, every):
    return builder.icmp_unsigned(">", builder.sub(text, every(48)), every(9))


stops_at = _classifier(WIDE, _emit_stops)  # bytes that cannot be in a name: control characters, blanks, ':', '|'
newlines_at = _classifier(WIDE, _emit_newlines)
others_at = _classifier(32, _emit_others)  # bytes that are not digits


@intrinsic
def count_ones(typingctx, word):
    """Return the number of bits that are 1."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i64"), args)

    return types.uint64(types.uint64), codegen


@intrinsic
def where_in_64(typingctx, address, byte):
    """Return a word whose bit k is set if byte k of the 64 bytes at an address equals `byte`."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.IntType(8), 64)
        text = builder.load(builder.inttoptr(args[0], vector.as_pointer()))
        text.align = 1
        wanted = builder.insert_element(
            ir.Constant(vector, ir.Undefined), builder.trunc(args[1], ir.IntType(8)), ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(wanted, ir.Constant(vector, ir.Undefined), zeros)
        return builder.bitcast(builder.icmp_unsigned("==", text, wanted), ir.IntType(64))

    return types.uint64(types.int64, types.int64), codegen


@kernel
def find_stops(data, size, stops, ends):
    """Write the offsets of all bytes that cannot be in a name, and of at least one newline after the text, to `stops`.

    ends[line] becomes the index of the stop at which that line ends. Neither array is checked for room; up to eight
    more values may be written after the last stop.
    """
    base = address_of(data)
    n = lines = np.uint64(0)
    for start in range(0, size + 1, WIDE):
        word = stops_at(base + start)
        count = count_ones(word)
        # Eight at a time, needed or not: faster than stopping after the last, which branch prediction gets wrong.
        done = np.uint64(0)
        while True:
            for k in range(8):
                stops[n + done + np.uint64(k)] = start + trailing_zeros(word)
                word &= word - ONE
            done += np.uint64(8)
            if done >= count:
                break
        newlines = newlines_at(base + start)
        while newlines:
            ends[lines] = n + count_ones(stops_at(base + start) & ((newlines & (~newlines + ONE)) - ONE))
            newlines &= newlines - ONE
            lines += ONE
        n += count
