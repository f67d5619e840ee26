"""Broadcasts of models: one per content, deleted when no DataFrame can need it anymore.

`transform` is lazy: its DataFrame, and each one derived from it, may be evaluated long after the call. A stream runs
for days; a persisted frame recomputes lost blocks. Only the JVM, which holds the plans, knows whether one of them still
refers to a broadcast; Python's DataFrame objects come and go. So a broadcast that is no longer offered to new calls is
kept as a weak Java reference, and its file is deleted once the JVM has collected it. (Spark then drops the executors'
copies, but would keep the driver's file until the session ends.)

This uses private names of PySpark: `_jbroadcast` and `_path` of a Broadcast, `_jvm` of a SparkContext, tested with
PySpark 4.3. Without them nothing is deleted before the session ends, as in Spark itself.
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

# Number of models, each in its newest version, that are kept for later calls: those used last.
MAX_MODELS = 4
# Number of older ones that may accumulate before the garbage collectors run, which takes about 0.3 s.
MAX_RELEASED = 4


class BroadcastModel(NamedTuple):
    """Content of a broadcast: a model as bytes, and a digest of them that identifies it to workers."""

    key: str
    data: bytes


class _Offered(NamedTuple):
    """A broadcast for later calls with the same content; of each file `name`, only the newest version is offered."""

    name: str
    broadcast: Broadcast[BroadcastModel]


class _Released(NamedTuple):
    """A broadcast that only plans may still refer to: a weak Java reference to it, and the driver's file."""

    reference: Any
    path: str


class ModelBroadcasts:
    """The broadcasts of one SparkContext. Any thread may call `get`."""

    def __init__(self, context: SparkContext) -> None:
        self.context: Any = context
        self._lock = threading.Lock()
        self._offered: dict[str, _Offered] = {}  # by key, least recently used first
        self._released: list[_Released] = []
        self._collect_at = MAX_RELEASED

    def get(self, learner: Learner, name: str | None) -> Broadcast[BroadcastModel]:
        """Return the broadcast of a model; `name` is its file, or None for a learner in memory."""
        data = rounds.to_bytes(learner)
        key = xxhash.xxh3_128_hexdigest(data)
        name = key if name is None else os.path.realpath(name)
        with self._lock:
            reused = self._offered.pop(key, None)
            broadcast = self.context.broadcast(BroadcastModel(key, data)) if reused is None else reused.broadcast
            for key_of_old in [key_of_old for key_of_old, offered in self._offered.items() if offered.name == name]:
                self._release(key_of_old)
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
            gc.collect()  # Python's references to Java objects are strong
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
    """Return the broadcasts of a context. Only one context exists at a time, so those of an earlier one are deleted."""
    global _current
    with _lock:
        if _current is None or _current.context is not context:
            if _current is not None:
                _current.close()
            _current = ModelBroadcasts(context)
        return _current
