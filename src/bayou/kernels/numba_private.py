"""Private parts of Numba. No other module of bayou uses any.

Each is looked up by name (`_private`), so that one which a new Numba has moved or removed does not break the import:
`why_plain` then reports it, and `compiling.kernel` falls back on Numba's `njit`, with a slower first start and the same
results. Tested with Numba from OLDEST to NEWEST, each with its llvmlite: `.ci/dependencies lowest` runs the tests of
kernels with the former, all others run with the latter. For other versions a small kernel is compiled first as a test.

    Kernel, Part        dispatchers that compile quickly and once, as described in `compiling`
    StoredCode          a dispatcher's cache as bytes; subclasses decide where to store them
    lent, empty_array   an array without its reference count; a new array within a kernel
    without_blas        Numba without scipy.linalg

The imports at the top have no fallback: code that builds LLVM instructions cannot be written without them. They are
commonly used by extensions of Numba.
"""

from __future__ import annotations

import functools
import importlib
import operator
import os
import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import llvmlite
import numba
from llvmlite import binding as llvm
from numba import types
from numba.core import cgutils as cgutils
from numba.core import event as event
from numba.core.compiler_lock import global_compiler_lock as global_compiler_lock
from numba.core.imputils import impl_ret_borrowed as impl_ret_borrowed
from numba.core.imputils import impl_ret_new_ref as impl_ret_new_ref
from numba.core.typing.templates import AbstractTemplate as AbstractTemplate
from numba.core.typing.templates import infer_global as infer_global

OLDEST, NEWEST = (0, 64), (0, 68)
# Environment variable that forces the fallback to `njit`: for tests, and for debugging this file.
PLAIN = "BAYOU_PLAIN_KERNELS"

_missing: list[str] = []


def _private(path: str) -> Any:
    """Return the object of a private name of Numba; if it is missing, record that and return a placeholder class."""
    module, *names = path.split(":")
    member: Any = None
    try:
        member = importlib.import_module(module)
        for name in names[0].split("."):
            member = getattr(member, name)
    except (ImportError, AttributeError):
        _missing.append(path.replace(":", "."))
        return type(names[0].rpartition(".")[2], (), {})
    return member


_CPUDispatcher: Any = _private("numba.core.registry:CPUDispatcher")
_FunctionCompiler: Any = _private("numba.core.dispatcher:_FunctionCompiler")
_JITCodeLibrary: Any = _private("numba.core.codegen:JITCodeLibrary")
_NullCache: Any = _private("numba.core.caching:NullCache")
_Flags: Any = _private("numba.core.compiler:Flags")
_CompileResult: Any = _private("numba.core.compiler:CompileResult")
_compile_extra: Any = _private("numba.core.compiler:compile_extra")
_ForceLiteralArg: Any = _private("numba.core.errors:ForceLiteralArg")
_TypingContext: Any = _private("numba.core.typing:Context")
_normalize_signature: Any = _private("numba.core.sigutils:normalize_signature")
_dumps: Any = _private("numba.core.serialize:dumps")
_rtsys: Any = _private("numba.core.runtime.nrt:rtsys")
_empty_nd_impl: Any = _private("numba.np.arrayobj:_empty_nd_impl")
# Attributes of these that are used or overridden.
for _path in (
    "numba.core.registry:CPUDispatcher._insert",
    "numba.core.registry:CPUDispatcher.compile",
    "numba.core.dispatcher:_FunctionCompiler._compile_core",
    "numba.core.dispatcher:_FunctionCompiler.fold_argument_types",
    "numba.core.codegen:JITCodeLibrary._optimize_functions",
    "numba.core.codegen:JITCodeLibrary._optimize_final_module",
    "numba.core.codegen:JITCodeLibrary._finalize_final_module",
    "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals",
    "numba.core.codegen:JITCodeLibrary.enable_object_caching",
    "numba.core.codegen:JITCodeLibrary.get_defined_functions",
    "numba.core.codegen:JITCPUCodegen._function_pass_manager",
    "numba.core.codegen:JITCPUCodegen.magic_tuple",
    "numba.core.compiler:Flags.no_compile",
    "numba.core.compiler:CompileResult._reduce",
    "numba.core.compiler:CompileResult._rebuild",
    "numba.core.errors:ForceLiteralArg.bind_fold_arguments",
    "numba.core.typing:Context._lookup_global",
    "numba.core.typing:Context._resolve_user_function_type",
):
    _private(_path)


@functools.cache
def why_plain() -> str | None:
    """Return why kernels cannot be compiled by the dispatchers below, to be put after "for"; None if they can."""
    if os.environ.get(PLAIN):
        return f"{PLAIN} is set"
    versions = f"Numba {numba.__version__} with llvmlite {llvmlite.__version__}"
    tried = f"bayou was tried with Numba {'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"
    if _missing:
        return f"{versions} has no {_missing[0]} ({tried})"
    if not OLDEST <= numba.version_info.short <= NEWEST and (failure := _try()):
        return f"{versions} cannot compile a kernel, {failure} ({tried})"
    return None


def _try() -> str:
    """Compile, store and read a small kernel that calls another; return what went wrong, "" if nothing did."""
    import numpy as np

    stored: dict[Any, bytes] = {}

    class Memory(StoredCode):
        def __init__(self, function: Callable[..., Any]) -> None:
            pass

        def find(self, sig: Any, processor: Any) -> bytes | None:
            return stored.get(sig)

        def keep(self, sig: Any, processor: Any, content: bytes) -> None:
            stored[sig] = content

    try:
        twice = Kernel(_twice, {}, Memory, nullcontext)
        for _ in range(2):  # compiled, then read
            total = Kernel(_total_of(twice), {}, Memory, nullcontext)
            values = np.array([1.0, 2.0])
            values.flags.writeable = False
            if total(values) != 6.0 or not stored:
                return "which gives another result"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return ""


def _twice(x):
    return x + x


def _total_of(inner):
    def total(values):
        result = 0.0
        for value in values:
            result += inner(value)
        return result

    return total


# --- dispatchers ------------------------------------------------------------------------------------------------------


class Kernel(_CPUDispatcher):
    """Dispatcher of a kernel. Python calls it; kernels call its `part`, which becomes part of their code.

    Args:
        function: the Python function.
        options: options of Numba's `njit`.
        cache: returns the `StoredCode` of a function.
        watch: returns a context in which all compilation takes place.
    """

    _compiler: Any

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        cache: Callable[[Callable[..., Any]], StoredCode],
        watch: Callable[[], AbstractContextManager[None]],
    ) -> None:
        flags = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None, **options}
        super().__init__(function, {}, {**flags, "no_cfunc_wrapper": True})
        self._compiler = _compiler(self._compiler, _Library, watch)
        self._cache = cache(function)
        self._asked, self._watch = flags, watch

    def compile(self, sig: Any) -> Any:
        args, result = _normalize_signature(sig)
        writable = tuple(map(_writable, args))
        if writable == args or result is not None:
            return super().compile(sig)
        entry = super().compile(writable)
        self._insert([arg._code for arg in args], entry, False)
        return entry

    @cached_property
    def part(self) -> InnerKernel:
        return InnerKernel(self.py_func, self._asked, self._watch)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self.part)


def _writable(kind: types.Type) -> types.Type:
    """Return the type of an argument with all arrays in it writable."""
    if isinstance(kind, types.Array):
        return kind if kind.mutable else kind.copy(readonly=False)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([_writable(member) for member in kind], getattr(kind, "instance_class", None))
    return kind


class InnerKernel(_CPUDispatcher):
    """Dispatcher of a function that kernels call: only typed and lowered. Python cannot call it."""

    _compiler: Any

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], watch: Callable[[], AbstractContextManager[None]]
    ) -> None:
        super().__init__(function, {}, {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True})
        self._compiler = _compiler(self._compiler, _InnerLibrary, watch)

    def compile(self, sig: Any) -> object:
        with global_compiler_lock:
            args, result = _normalize_signature(sig)
            compiled_before = self.overloads.get(tuple(args))
            if compiled_before is not None:
                return compiled_before.entry_point
            event_data = {"dispatcher": self, "args": args, "return_type": result}
            with self._compiling_counter, event.trigger_event("numba:compile", data=event_data):
                try:
                    compiled = self._compiler.compile(args, result)
                except _ForceLiteralArg as asks:
                    raise asks.bind_fold_arguments(self._folded) from None
            compiled = compiled._replace(entry_point=object())  # Numba's key for it
            self.targetctx.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
            self.overloads[tuple(args)] = compiled
            return compiled.entry_point

    def _folded(self, args: Any, kws: Any) -> Any:
        return self._compiler.fold_argument_types(args, kws)[1]


class _Library(_JITCodeLibrary):
    """LLVM code of a kernel."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                manager, builder = self._codegen._function_pass_manager()
                manager.run(function, builder)


class _InnerLibrary(_Library):
    """LLVM code that is linked into other code, and optimized and compiled there."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Compiler(_FunctionCompiler):
    library: type[_Library]
    watch: Callable[[], AbstractContextManager[None]]

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags = _Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = self.library is _InnerLibrary
        target = self.targetdescr.target_context
        library = self.library(target.codegen(), self.py_func.__qualname__)
        library.enable_object_caching()
        typing = _typed_once(self.targetdescr.typing_context)
        with self.watch():
            return _compile_extra(
                typing, target, self.py_func, args, return_type, flags, self.locals, library, self.pipeline_class
            )


def _compiler(usual: Any, library: type[_Library], watch: Callable[[], AbstractContextManager[None]]) -> _Compiler:
    made = _Compiler(usual.py_func, usual.targetdescr, usual.targetoptions, usual.locals, usual.pipeline_class)
    made.library, made.watch = library, watch
    return made


# --- types of operators -----------------------------------------------------------------------------------------------

_OPERATORS = {id(getattr(operator, name)) for name in operator.__all__} | {id(bool)}
_PLAIN_TYPES = (types.Number, types.Boolean, types.Array)


class _TypedOnce(_TypingContext):
    """Numba's typing context with a cache of the types of operators on plain numbers and arrays.

    Numba tries dozens of rules for each of about a thousand operations. All state but `known` is shared with the usual
    context, and types are resolved under Numba's compiler lock. Other code is compiled with the usual context.
    """

    known: dict[Any, Any]

    def _resolve_user_function_type(self, func: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        kind = self._lookup_global(func) or func
        plain = not kws and id(getattr(kind, "typing_key", None)) in _OPERATORS
        if not plain or not all(isinstance(arg, _PLAIN_TYPES) for arg in args):
            return super()._resolve_user_function_type(func, args, kws, literals)
        key = kind, tuple(args)
        resolved = self.known.get(key)
        if resolved is None:
            resolved = super()._resolve_user_function_type(func, args, kws, literals)
            if resolved is not None:
                self.known[key] = resolved
        return resolved


@functools.cache
def _typed_once(usual: Any) -> _TypedOnce:
    made = _TypedOnce.__new__(_TypedOnce)
    made.__dict__.update(usual.__dict__, known={})
    return made


# --- code in files ----------------------------------------------------------------------------------------------------


class StoredCode(_NullCache):
    """Cache of a dispatcher that converts compiled code to bytes and back. `processor` is what the code runs on."""

    @abstractmethod
    def find(self, sig: Any, processor: Any) -> bytes | None:
        """Return the bytes stored for a signature; None if there are none."""

    @abstractmethod
    def keep(self, sig: Any, processor: Any, content: bytes) -> None:
        """Store the bytes of a signature."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _rtsys.initialize(target_context)  # all that compiled code needs
        content = self.find(sig, target_context.codegen().magic_tuple())
        return None if content is None else _CompileResult._rebuild(target_context, *pickle.loads(content))

    def save_overload(self, sig: Any, data: Any) -> None:
        (name, kind, (machine_code, _)), *about = data._reduce()
        # The LLVM code is stored for callers to inline, and nothing calls this kernel (but its `part`): names suffice.
        names = [function.name for function in data.library.get_defined_functions()]
        stubs = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)
        library = name, kind, (machine_code, llvm.parse_assembly(stubs).as_bitcode())
        self.keep(sig, data.codegen.magic_tuple(), _dumps((library, *about)))


# --- arrays -----------------------------------------------------------------------------------------------------------


def lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return an array, or a tuple with its arrays, without reference counts."""
    if isinstance(kind, types.BaseTuple):
        members = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [lent(context, builder, *member) for member in members])
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()


def empty_array(context: Any, builder: Any, kind: Any, sizes: Any) -> Any:
    """Return a new array as a struct whose fields may be changed."""
    return _empty_nd_impl(context, builder, kind, sizes)


# --- a quick start ----------------------------------------------------------------------------------------------------


@contextmanager
def without_blas() -> Iterator[None]:
    """Keep Numba from looking for BLAS with the first kernel, for which it would import scipy.linalg."""
    from numba.np import linalg

    look = getattr(linalg, "ensure_blas", None)
    if look is not None:
        linalg.ensure_blas = _not_there
    try:
        yield
    finally:
        if look is not None:
            linalg.ensure_blas = look


def _not_there() -> None:
    raise ImportError("the command does without BLAS")
