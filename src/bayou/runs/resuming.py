"""Resuming of interrupted runs: the position to continue from, and messages about it."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.core.errors import BadModel
from bayou.core.extras import Extras, ResumePoint
from bayou.core.file_fingerprints import FileFingerprint
from bayou.sources.reading.open_files import expand


def marks_of(names: Sequence[str]) -> list[FileFingerprint]:
    """Return the current marks of the files to be read; an empty list for tables in memory."""
    return [FileFingerprint.of(name) for name in expand(names)] if names else []


def interrupted_in(extras: Extras, files: Sequence[FileFingerprint]) -> ResumePoint | None:
    """Return the run that was interrupted in these files, if any; files may have been appended since.

    Raises:
        BadModel: if one of the files has changed.
    """
    point = extras.unfinished
    if point is None or not point.files or _names(point.files) != _names(files[: len(point.files)]):
        return None
    for was, mark in zip(point.files, files, strict=False):
        if was.size is not None and not was.is_prefix_of(mark.path):
            shorter = mark.size is not None and mark.size < was.size
            change = f"it has {mark.size:,} bytes and had {was.size:,}" if shorter else "its content has changed"
            raise BadModel(
                f"{mark.path} is no longer the file the run was interrupted in: {change}. Restore the old file to "
                "continue, or give the new one another name (a link will do) to learn all of it."
            )
    return point


def resume_note(point: ResumePoint, files: Sequence[FileFingerprint]) -> str:
    """Return the message for a run that continues an interrupted one."""
    note = f"going on after {point.rows:,} examples of pass {point.passed + 1}, where it was interrupted"
    changed = [mark.path for was, mark in zip(point.files, files, strict=False) if was.size not in (None, mark.size)]
    return note + (f"; {', '.join(changed)} has grown since, but its earlier content is unchanged" if changed else "")


def already_learned(extras: Extras, files: Sequence[FileFingerprint]) -> list[str]:
    """Return messages about an abandoned run and about files that the model has learned before."""
    notes = []
    if extras.unfinished is not None and extras.unfinished.files:
        point = extras.unfinished
        notes.append(
            f"the run that was interrupted after {point.rows:,} rows of {point.files[0].name} is not continued: "
            "these are other data"
        )
    for mark in files:
        earlier = [was for was in extras.finished if mark.size is not None and was.is_prefix_of(mark.path)]
        if any(was.size == mark.size for was in earlier):
            notes.append(f"this model has already learned all of {mark.path}; learning it again")
        elif any(was.name == mark.name for was in earlier):
            notes.append(f"this model has already learned the beginning of {mark.path}, which has grown; learning all")
    return notes


def _names(files: Sequence[FileFingerprint]) -> list[str]:
    return [mark.name for mark in files]
