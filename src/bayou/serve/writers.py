"""Writers of a log: versions and kind of processor, which determine the last bits of a model's numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba import config

Writer = dict[str, str]

_SHOWN_FEATURES = 4
# The largest relative difference observed between two kinds of processor, one without fused multiply-add.
_MEASURED = "2e-4"


def this_writer() -> Writer:
    """Return what determines the bits of models made here: versions, and the processor of the compiled kernels."""
    import bayou

    features = config.CPU_FEATURES
    if features is None:
        flags = binding.get_host_cpu_features()
        features = ",".join(
            f"+{name}" for name in sorted(flags) if flags[name] and (config.ENABLE_AVX or not name.startswith("avx"))
        )
    return {
        "bayou": bayou.__version__,
        "machine": platform.machine(),
        "processor": config.CPU_NAME or binding.get_host_cpu_name(),
        "features": features,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
    }


def differences(writer: Mapping[str, Any], this_one: Writer) -> str:
    """Describe how another writer differs from this one; "" if no difference matters."""
    changes = []
    if writer.get("bayou") != this_one["bayou"]:
        changes.append(f"bayou {writer.get('bayou')} (here {this_one['bayou']})")
    kind, our_kind = (f"{about.get('processor')}, {about.get('machine')}" for about in (writer, this_one))
    if kind != our_kind:
        changes.append(f"a processor of the kind {kind} (here {our_kind})")
    written, local = (_features(about.get("features")) for about in (writer, this_one))
    for names, word, use in ((written - local, "with", "not used here"), (local - written, "without", "used here")):
        if names:
            changes.append(f"{word} {_listed(names)} ({use})")
    for name, display in (("numba", "Numba"), ("llvmlite", "llvmlite"), ("numpy", "NumPy")):
        if writer.get(name) != this_one[name]:
            changes.append(f"{display} {writer.get(name)} (here {this_one[name]})")
    return ", ".join(changes)


def writer_warnings(writers: Sequence[tuple[int, Mapping[str, Any]]], last: int, this_one: Writer) -> list[str]:
    """Return a sentence for each part of a log, up to entry `last`, that was written by a different writer.

    Args:
        writers: the first entry and the writer of each part.
    """
    ends = [*(first - 1 for first, _ in writers), last][1:]
    return [
        f"entries {first:,} to {end:,} of the log were written by {change}: numbers learned from them here may differ "
        f"in their last places (by up to {_MEASURED} of their size where it was measured), so the file may differ "
        "from the server's"
        for (first, writer), end in zip(writers, ends, strict=True)
        if first <= end and (change := differences(writer, this_one))
    ]


def _features(text: Any) -> set[str]:
    return {name[1:] for name in str(text or "").split(",") if name.startswith("+")}


def _listed(names: set[str]) -> str:
    # Most important first: fused multiply-add changes how sums round, wide registers their order.
    order = sorted(names, key=lambda name: (name != "fma", not name.startswith("avx"), name))
    n_more = len(order) - _SHOWN_FEATURES
    return ", ".join(order[:_SHOWN_FEATURES]) + (f" and {n_more} more" if n_more > 0 else "")
