"""Where reports go: a stream, or a file that is whole or not there."""

from __future__ import annotations

import os
import stat
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from auditor.errors import UserError, reason_of
from auditor.report import render
from auditor.report.look import Look
from auditor.report.summary import sentence, statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from auditor.report import Report

#: Formats that people read where they are written, so that the closing lines belong to them.
_READ_BY_PEOPLE = ("text", "github")


class Wanted(NamedTuple):
    """What is asked of a report."""

    form: str
    output: str | None = None
    quiet: bool = False
    statistics: bool = False


class Streams(NamedTuple):
    """The standard streams, and what the second can show."""

    out: TextIO
    err: TextIO
    err_look: Look = Look()


def publish(report: Report, wanted: Wanted, streams: Streams) -> None:
    """Write the report to where it is asked for, and the closing lines to where people look."""
    closing_here = _closing(report, wanted) if wanted.form in _READ_BY_PEOPLE else ()
    closing_aside = _closing(report._replace(look=streams.err_look), wanted)
    if wanted.output is not None:
        write_file(chain(render(report, wanted.form), closing_here), wanted.output)
        write(closing_aside, streams.err)
        return
    write(chain(render(report, wanted.form), closing_here), streams.out)
    if wanted.form == "concise" or (wanted.form == "json" and wanted.statistics):
        write(closing_aside, streams.err)


def _closing(report: Report, wanted: Wanted) -> Iterator[str]:
    if wanted.statistics and report.findings:
        yield statistics(report)
    if not wanted.quiet:
        yield f"{sentence(report)}\n"


def write(pieces: Iterable[str], stream: TextIO) -> None:
    """Write to a stream and let it go out. A reader who has seen enough ends the writing, not the run."""
    try:
        stream.writelines(pieces)
        stream.flush()
    except BrokenPipeError:
        hush(stream)


def hush(stream: TextIO) -> None:
    """Let a stream that nobody reads lead nowhere: what is still buffered would fail again at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write_file(pieces: Iterable[str], path: str) -> None:
    """Write a file: beside its place first, then moved there. A pipe or a device is written to as it is."""
    goal = os.path.realpath(path)
    try:
        if os.path.exists(goal) and not stat.S_ISREG(os.stat(goal).st_mode):
            _fill(goal, pieces)
            return
        draft = f"{goal}.{os.getpid()}.tmp"
        try:
            _fill(draft, pieces)
            os.replace(draft, goal)
        finally:
            if os.path.lexists(draft):
                os.unlink(draft)
    except OSError as error:
        raise UserError(f"{path}: the report cannot be written: {reason_of(error)}") from error


def _fill(path: str, pieces: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(pieces)
