"""How kernels are compiled: quickly, and once.

`kernel` is Numba's `njit` with four differences:

    @kernel
    def learn(indptr, indices, values, labels, state): ...

- **What a kernel calls becomes part of it.** A kernel that another one calls is only typed and lowered for it: no
  wrapper for Python, no machine code of its own, no file. Numba's own way does all of that for each of the many small
  functions of a run, which was a quarter of the time that a first run took.
- **An array is an array**, whether or not it may be written to. Numba compiles a kernel anew for every mixture of such
  arrays and others: for a file that is read where it lies and for one that was decompressed, say. What is not to be
  written to, no kernel writes to; the laws look (`tests/laws/test_types`).
- **Files hold what they say.** Compiled code is found by everything it depends on (`cache`).
- **Zero divides as in NumPy**, and the GIL is released.

Options are Numba's: `@kernel(forceinline=True)`, `@kernel(inline="always")`, `@kernel(fastmath={"contract"})`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from numba import types
from numba.core import compiler, errors, event, sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler
from numba.core.registry import CPUDispatcher
from numba.core.types.functions import BaseFunction

from bayou.kernels.cache import KernelCache
from bayou.kernels.notices import taking_long

COMPILING = "compiling the kernels; this happens once, takes up to half a minute, and is kept"


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function as a kernel: for Python compiled once and kept in a file, for other kernels a part of them."""
    if function is None:
        return lambda function: Kernel(function, options)
    return Kernel(function, options)


class Kernel(CPUDispatcher):
    """What `kernel` makes of a function. Python calls it; kernels call its `part`."""

    _compiler: _FunctionCompiler

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        asked = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None, **options}
        super().__init__(function, {}, {**asked, "no_cfunc_wrapper": True})
        self._compiler = _compiler(self._compiler, _Library)
        self._cache = KernelCache(function)
        self._asked = asked

    def compile(self, sig: Any) -> Any:
        args, result = sigutils.normalize_signature(sig)
        writable = tuple(map(_writable, args))
        if writable == args or result is not None:
            return super().compile(sig)
        entry = super().compile(writable)
        self._insert([arg._code for arg in args], entry, False)
        return entry

    @cached_property
    def part(self) -> Part:
        return Part(self.py_func, self._asked)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self.part)


def _writable(kind: types.Type) -> types.Type:
    """The type of an argument, or of the arrays in it, if these may be written to."""
    if isinstance(kind, types.Array):
        return kind if kind.mutable else kind.copy(readonly=False)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([_writable(part) for part in kind], getattr(kind, "instance_class", None))
    return kind


class Part(CPUDispatcher):
    """A function as kernels call it: typed and lowered, and nothing else. Python cannot call it."""

    _compiler: _FunctionCompiler

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {}, {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True})
        self._compiler = _compiler(self._compiler, _PartLibrary)

    def compile(self, sig: Any) -> object:
        with global_compiler_lock:
            args, result = sigutils.normalize_signature(sig)
            known = self.overloads.get(tuple(args))
            if known is not None:
                return known.entry_point
            told = {"dispatcher": self, "args": args, "return_type": result}
            with self._compiling_counter, event.trigger_event("numba:compile", data=told):
                try:
                    compiled = self._compiler.compile(args, result)
                except errors.ForceLiteralArg as asks:
                    raise asks.bind_fold_arguments(self._folded) from None
            compiled = compiled._replace(entry_point=object())  # what Numba knows it by
            self.targetctx.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
            self.overloads[tuple(args)] = compiled
            return compiled.entry_point

    def _folded(self, args: Any, kws: Any) -> Any:
        return self._compiler.fold_argument_types(args, kws)[1]


class _Library(JITCodeLibrary):
    """LLVM code of a kernel."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                manager, builder = self._codegen._function_pass_manager()
                manager.run(function, builder)


class _PartLibrary(_Library):
    """LLVM code that is linked into other code: optimised and made machine code of there."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Compiler(_FunctionCompiler):
    library: type[_Library]

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = self.library is _PartLibrary
        target = self.targetdescr.target_context
        library = self.library(target.codegen(), self.py_func.__qualname__)
        library.enable_object_caching()
        with _operators_typed_once(), taking_long(COMPILING):
            return compiler.compile_extra(
                self.targetdescr.typing_context, target, self.py_func, args, return_type, flags, self.locals,
                library, self.pipeline_class,
            )  # fmt: skip


def _compiler(usual: _FunctionCompiler, library: type[_Library]) -> _Compiler:
    made = _Compiler(usual.py_func, usual.targetdescr, usual.targetoptions, usual.locals, usual.pipeline_class)
    made.library = library
    return made


# --- what an operator gives -------------------------------------------------------------------------------------------

_OPERATORS = {id(getattr(operator, name)) for name in operator.__all__} | {id(bool)}
_PLAIN = (types.Number, types.Boolean, types.Array)
_known: dict[tuple[BaseFunction, tuple[types.Type, ...]], Any] = {}


@contextmanager
def _operators_typed_once() -> Iterator[None]:
    """Within, the type of an operator on plain numbers and arrays is worked out once a process, not at every use.

    Numba tries dozens of rules for each of some thousand operations. Types are worked out under its compiler lock.
    """
    usual = BaseFunction.get_call_type

    def get_call_type(self: BaseFunction, context: Any, args: Any, kws: Any) -> Any:
        if kws or id(self.typing_key) not in _OPERATORS or not all(isinstance(arg, _PLAIN) for arg in args):
            return usual(self, context, args, kws)
        key = self, tuple(args)
        if key not in _known:
            _known[key] = usual(self, context, args, kws)
        return _known[key]

    if usual.__module__ == __name__:  # this very function, from the kernel that calls
        yield
        return
    BaseFunction.get_call_type = get_call_type
    try:
        yield
    finally:
        BaseFunction.get_call_type = usual
