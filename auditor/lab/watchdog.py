"""Runs beside a server of ours, and outlives who started it by a moment: stops the server, and removes its folder.

    python watchdog.py FOLDER

What it waits for is the end of its standard input, which comes with the end of its parent, however that ends. It
imports nothing of ours, so that it is there in a few milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time


def main(folder: str) -> None:
    # Whoever ends a whole tree of processes means the parent, which ends this one: it stays until its work is done.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while sys.stdin.buffer.read(1024):
        pass
    pid = _pid(folder)
    if pid:
        _stop(pid)
    shutil.rmtree(folder, ignore_errors=True)


def _pid(folder: str) -> int:
    """The server that runs in the folder, 0 for none."""
    try:
        with open(os.path.join(folder, "data", "postmaster.pid"), encoding="utf-8") as file:
            return int(file.readline())
    except (OSError, ValueError):
        return 0


def _stop(pid: int) -> None:
    """Nothing in it is worth a checkpoint: it is stopped at once."""
    deadline = time.monotonic() + 10
    try:
        os.kill(pid, signal.SIGQUIT)
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main(sys.argv[1])
