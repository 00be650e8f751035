#!/usr/bin/env python3
"""How long the audit takes, beside other tools in the same run.

    python benchmarks/speed.py [--tree DIR] [--runs N]

Times whole processes, one after the other in turn so that a machine that grows slower hits all alike, and prints the
median of each and its ratio to a bare Python (start-up) or to ruff (trees). DIR is a source tree, by default the wheel
of Django 5.2, which is fetched by pip and only unpacked. `rg` and `ruff` are used where they are on the PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

FAULTY = """\
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def run_job(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
        conn.execute("SELECT count(*) FROM invoices")
"""
HARMLESS = "def add(a, b):\n    return a + b\n"

Command = list[str]


def seconds(command: Command, cwd: Path) -> float:
    """How long the command takes, as a whole process."""
    # Users have compiled bytecode; whoever forbids it would measure the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def compare(title: str, commands: dict[str, Command], against: str, cwd: Path, runs: int) -> None:
    """Run the commands in turn, and print their medians and ratios."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            took = seconds(command, cwd)
            if turn:  # the first turn fills caches
                times[name].append(took)
    base = statistics.median(times[against])
    print(f"\n{title} (median of {runs}; ratio to {against})")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"  {name:42} {median * 1000:8.0f} ms  {median / base:6.2f}")


def django(folder: Path) -> Path:
    """The sources of Django, fetched as a wheel, which needs no build, and unpacked."""
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "Django==5.2"]
    fetched = subprocess.run([*fetch, "-d", str(folder)], capture_output=True, text=True, check=False)
    wheel = next(folder.glob("[dD]jango-5.2*.whl"), None)
    if wheel is None:
        why = (fetched.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise SystemExit(f"speed.py: pip cannot fetch Django 5.2 ({why}): pass a source tree with --tree DIR")
    tree = folder / "django-5.2"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tree)
    return tree


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tree", type=Path)
    options.add_argument("--runs", type=int, default=7)
    given = options.parse_args()
    audit = [sys.executable, "-m", "auditor"]
    with tempfile.TemporaryDirectory() as scratch:
        small = Path(scratch, "small")
        for name, source in (("faulty", FAULTY), ("harmless", HARMLESS)):
            (small / name).mkdir(parents=True)
            (small / name / "worker.py").write_text(source)
        tree = given.tree or django(Path(scratch))
        compare(
            "start-up",
            {
                "bare python": [sys.executable, "-c", "pass"],
                "tenant-audit --version": [*audit, "--version"],
                "one small file, nothing found": [*audit, "harmless"],
                "one small file, a finding": [*audit, "faulty"],
            },
            "bare python",
            small,
            given.runs,
        )
        commands = {"tenant-audit": [*audit, "."]}
        ruff = shutil.which("ruff", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        ripgrep = shutil.which("rg")
        if ruff:
            commands["ruff check --select S608"] = [ruff, "check", "--isolated", "--no-cache", "--select", "S608", "."]
        if ripgrep:
            commands["rg, the words of a few rules"] = [ripgrep, "-il", "set_config|set local|skip locked", "."]
        beside = "ruff check --select S608" if ruff else "tenant-audit"
        compare(f"a whole tree: {tree.name}", commands, beside, tree, given.runs)


if __name__ == "__main__":
    main()
