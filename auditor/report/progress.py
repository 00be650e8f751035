"""A bar on the terminal for runs that take long, and nothing at all for those that don't."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Bar:
    """Progress that is shown once the run has lasted for a second; only then is `rich` imported.

    It draws when it is told of progress and starts no thread, so that processes can be forked beside it.
    """

    def __init__(self, stream: TextIO, after: float = 1.0) -> None:
        self._stream = stream
        self._due = time.monotonic() + after
        self._shown: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + 0.1
        if self._shown is None:
            self._shown = self._start()
        if step not in self._tasks:
            self._tasks[step] = self._shown.add_task(step, total=total)
        self._shown.update(self._tasks[step], completed=done, total=total)
        self._shown.refresh()

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._shown is not None:
            self._shown.stop()

    def _start(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        shown = Progress(*columns, console=Console(file=self._stream), transient=True, auto_refresh=False)
        shown.start()
        return shown
