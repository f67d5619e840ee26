"""Where a resumed run begins: where one of the same files was interrupted, or at the beginning; what to say of it."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.core.errors import BadModel
from bayou.core.extras import Extras, Unfinished
from bayou.core.file_marks import FileMark
from bayou.sources.reading.opening import expand


def marks_of(names: Sequence[str]) -> list[FileMark]:
    """The files that are to be read, as they are now; none of a table in memory."""
    return [FileMark.of(name) for name in expand(names)] if names else []


def interrupted_in(extras: Extras, files: Sequence[FileMark]) -> Unfinished | None:
    """The run that was interrupted in these files, if there is one. More of them may have come behind the others."""
    place = extras.unfinished
    if place is None or not place.files or _names(place.files) != _names(files[: len(place.files)]):
        return None
    for was, now in zip(place.files, files, strict=False):
        if was.size is not None and not was.begins(now.path):
            shorter = now.size is not None and now.size < was.size
            how = f"it has {now.size:,} bytes and had {was.size:,}" if shorter else "what it held has changed"
            raise BadModel(
                f"{now.path} is not as it was when the run was interrupted in it: {how}. Put the old file back to go "
                "on, or give the new one by another name (a link will do) to learn all of it."
            )
    return place


def going_on(place: Unfinished, files: Sequence[FileMark]) -> str:
    """What to say when a run is gone on with."""
    said = f"going on after {place.rows:,} examples of pass {place.passed + 1}, where it was interrupted"
    changed = [now.path for was, now in zip(place.files, files, strict=False) if was.size not in (None, now.size)]
    return said + (f"; {', '.join(changed)} was written to since, but holds what it held" if changed else "")


def known_already(extras: Extras, files: Sequence[FileMark]) -> list[str]:
    """What to say of files that the model has learned from before."""
    said = []
    if extras.unfinished is not None and extras.unfinished.files:
        place = extras.unfinished
        said.append(
            f"the run that was interrupted after {place.rows:,} rows of {place.files[0].name} is not gone on with: "
            "these are other data"
        )
    for now in files:
        before = [was for was in extras.finished if now.size is not None and was.begins(now.path)]
        if any(was.size == now.size for was in before):
            said.append(f"this model has already learned all of {now.path}; learning it again")
        elif any(was.name == now.name for was in before):
            said.append(f"this model has already learned the beginning of {now.path}, which has grown; learning all")
    return said


def _names(files: Sequence[FileMark]) -> list[str]:
    return [mark.name for mark in files]
