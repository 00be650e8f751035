#!/usr/bin/env python3
"""Holds the audit against real runs of generated worker programs, in as many as you have time for.

    python benchmarks/reality.py [--count N] [--seed S] [--driver NAME]

Each program is audited, then run on a server of our own as it is and with every step of it failing in turn; at every
probe the transaction status and the tenant must be what the audit has said. Ends with exit code 1 at the first
difference, and prints the smallest program that shows it. Needs the extra `test`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auditor.lab.server import server
from tests.reality.faults.comparison import DifferenceError, try_programs
from tests.reality.faults.programs import Dialect


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="programs of each driver (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--driver", choices=[dialect.value for dialect in Dialect], help="only this one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    with server() as running:
        for dialect in Dialect:
            if given.driver not in (None, dialect.value):
                continue
            started = time.monotonic()
            print(f"{dialect.value}, seed {given.seed}: ", end="", flush=True)
            try:
                tally = try_programs(dialect, running.dsn, given.count, seed=given.seed)
            except DifferenceError as difference:
                failed = True
                print(f"a difference\n{difference}")
            else:
                print(f"0 differences in {tally}; {time.monotonic() - started:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
