"""A machine that can vanish: a network namespace, whose packets are dropped when it does. Linux, as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Networks that are kept for documentation and for benchmarks, so that hardly anybody has them.
_NETWORKS = ("198.51.100", "203.0.113", "198.18.0", "198.19.0")


class RefusedError(Exception):
    """Why no such machine can be made here."""


class Machine:
    """The other end, at the address `there`: what runs there reaches us at `here`."""

    def __init__(self, name: str, network: str) -> None:
        self.name = name
        self.here, self.there = f"{network}.1", f"{network}.2"

    def start(self, words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program there."""
        return subprocess.Popen([_ip(), "netns", "exec", self.name, *words], text=True, **options)

    def vanish(self) -> None:
        """From now on nothing that it sends arrives, and it is told nothing of that."""
        _run("-n", self.name, "route", "replace", "blackhole", self.here)


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """Such a machine, for as long as the block lasts; `RefusedError` where it cannot be made."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("ip") is None:
        raise RefusedError("it takes Linux, root, and the command ip, to cut a network")
    used = _run("-oneline", "address")
    free = next((each for each in _NETWORKS if each not in used), None)
    if free is None:
        raise RefusedError("there is no network left to use for it")
    made = Machine(f"ta{os.getpid()}", free)
    try:
        _run("netns", "add", made.name)
        _run("link", "add", made.name, "type", "veth", "peer", "name", "out", "netns", made.name)
        _run("address", "add", f"{made.here}/30", "dev", made.name)
        _run("link", "set", made.name, "up")
        _run("-n", made.name, "address", "add", f"{made.there}/30", "dev", "out")
        _run("-n", made.name, "link", "set", "out", "up")
        yield made
    finally:
        for words in (("link", "delete", made.name), ("netns", "delete", made.name)):
            with contextlib.suppress(RefusedError):
                _run(*words)


def _run(*words: str) -> str:
    done = subprocess.run([_ip(), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RefusedError(f"ip {words[0]} is not permitted: {' '.join(done.stderr.split())}")
    return done.stdout


def _ip() -> str:
    return shutil.which("ip") or "ip"
