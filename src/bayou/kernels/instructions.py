"""Functions for kernels that are written in LLVM's instructions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic


def instruction(signature: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a function that emits LLVM instructions callable from kernels, by position.

        @instruction(lambda a, b: a(a, b))
        def product(context, builder, sig, args):
            return builder.fmul(*args)

    Args:
        signature: returns Numba's signature for the types of the arguments: the types that the emitted code takes, and
            that of its result. The function may return nothing if that is `types.void`.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def codegen(context, builder, sig, args):
            value = emit(context, builder, sig, args)
            return context.get_dummy_value() if value is None else value

        def define(typingctx, *args):
            return signature(*args), codegen

        # Numba takes names and number of the arguments from here.
        context = inspect.Parameter("typingctx", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        define.__signature__ = inspect.Signature([context, *inspect.signature(signature).parameters.values()])  # type: ignore[attr-defined]
        define.__name__, define.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(define)

    return decorate
