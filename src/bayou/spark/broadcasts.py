"""Broadcasts of models: one per content, deleted when no DataFrame can need it any more.

`transform` is lazy: its DataFrame, and each one derived from it, may be evaluated long after the call. A stream runs
for days; a persisted frame computes a lost block again. Only the JVM, where the plans are, knows whether one of them
still refers to a broadcast; Python's DataFrame objects come and go. So a broadcast that is not offered to new calls any
more is kept as a weak reference of Java, and its file is deleted once the JVM has collected it. (The executors' copies
are then dropped by Spark, which would keep the driver's file until the session ends.)

Names of PySpark that are not public are read here: `_jbroadcast` and `_path` of a Broadcast, `_jvm` of a SparkContext.
They were tried with PySpark 4.3. Without them nothing is deleted before the session ends, as Spark itself has it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash

from bayou import rounds
from bayou.core.learner import Learner

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

# How many models, each in its newest version, stay for later calls: those used last.
MAX_MODELS = 4
# How many older ones may pile up before the garbage collectors run, which takes some 0.3 s.
MAX_RELEASED = 4


class BroadcastModel(NamedTuple):
    """What is broadcast: a model as bytes, and a digest of them, by which workers recognize it."""

    key: str
    data: bytes


class _Offered(NamedTuple):
    """A broadcast for later calls with the same content; `name`: the file, whose newest version alone is offered."""

    name: str
    broadcast: Broadcast[BroadcastModel]


class _Released(NamedTuple):
    """A broadcast that only plans can still refer to: a weak reference of Java to it, and the driver's file."""

    reference: Any
    path: str


class ModelBroadcasts:
    """The broadcasts of one SparkContext. Any thread may ask for one."""

    def __init__(self, context: SparkContext) -> None:
        self.context: Any = context
        self._lock = threading.Lock()
        self._offered: dict[str, _Offered] = {}  # by key; the one used last comes last
        self._released: list[_Released] = []
        self._collect_at = MAX_RELEASED

    def get(self, learner: Learner, name: str | None) -> Broadcast[BroadcastModel]:
        """Return the broadcast of a model; `name`: its file, or None of a learner in memory."""
        data = rounds.to_bytes(learner)
        key = xxhash.xxh3_128_hexdigest(data)
        name = key if name is None else os.path.realpath(name)
        with self._lock:
            before = self._offered.pop(key, None)
            broadcast = self.context.broadcast(BroadcastModel(key, data)) if before is None else before.broadcast
            for other in [other for other, offered in self._offered.items() if offered.name == name]:
                self._release(other)
            self._offered[key] = _Offered(name, broadcast)
            while len(self._offered) > MAX_MODELS:
                self._release(next(iter(self._offered)))
            self._delete_unused()
        return broadcast

    def _release(self, key: str) -> None:
        broadcast = self._offered.pop(key).broadcast
        with contextlib.suppress(AttributeError):
            reference = self.context._jvm.java.lang.ref.WeakReference(broadcast._jbroadcast)
            self._released.append(_Released(reference, broadcast._path))

    def _delete_unused(self) -> None:
        collects = len(self._released) >= self._collect_at
        if collects:
            gc.collect()  # Python's references to Java's objects are strong ones
            self.context._jvm.java.lang.System.gc()
        used = []
        for released in self._released:
            if released.reference.refersTo(None):
                _delete(released.path)
            else:
                used.append(released)
        self._released = used
        if collects:
            self._collect_at = len(used) + MAX_RELEASED

    def close(self) -> None:
        """Delete all files, after the context has stopped."""
        for released in self._released:
            _delete(released.path)
        for offered in self._offered.values():
            _delete(getattr(offered.broadcast, "_path", ""))


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_lock = threading.Lock()
_current: ModelBroadcasts | None = None


def broadcasts_of(context: SparkContext) -> ModelBroadcasts:
    """Return those of a context; there is one at a time, and those of an earlier one have no use any more."""
    global _current
    with _lock:
        if _current is None or _current.context is not context:
            if _current is not None:
                _current.close()
            _current = ModelBroadcasts(context)
        return _current
