#!/usr/bin/env python3
"""Holds the audit against real runs of generated worker programs, in as many as you have time for.

    python benchmarks/reality.py [--count N] [--seed S] [--driver NAME] [--most RUNS]

Each program is audited, then run on a server of our own as it is and with every step of it failing in turn; at every
probe the transaction status and the tenant must be what the audit has said. `--most` bounds how many steps of a program
are made to fail, which leaves time for more programs. Ends with exit code 1 at the first difference, and prints the
smallest program that shows it; or when the audit knows nothing of 5 % of the probes or more. Stopped by Ctrl-C, it
tells how far it came. Needs the extra `test`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auditor.lab.server import server
from tests.reality.faults.comparison import DifferenceError, Tally, try_programs
from tests.reality.faults.programs import Dialect

SQLALCHEMY = "sqlalchemy"
#: The share of probes of which the audit may know nothing, and still be held to know its drivers.
MOST_UNKNOWN = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="programs of each driver (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--driver", choices=[*(dialect.value for dialect in Dialect), SQLALCHEMY], help="only this one")
    parser.add_argument("--most", type=int, default=1000, help="runs of each program beside the first (default: 1000)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    with server() as running:
        for dialect in Dialect:
            if given.driver not in (None, dialect.value):
                continue
            print(f"{dialect.value}, seed {given.seed}: ", end="", flush=True)
            started, tally = time.monotonic(), Tally()
            try:
                try_programs(dialect, running.dsn, given.count, given.most, given.seed, tally)
            except DifferenceError as difference:
                failed = True
                print(f"a difference\n{difference}")
                continue
            except KeyboardInterrupt:
                print(f"stopped after {tally}; {time.monotonic() - started:.0f} s")
                return 130
            print(f"0 differences in {tally}; {time.monotonic() - started:.0f} s", flush=True)
            failed = failed or tally.share_of_unknown >= MOST_UNKNOWN
        if given.driver in (None, SQLALCHEMY):
            failed |= not hold_sqlalchemy(running.dsn, given.count, given.seed)
    return int(failed)


def hold_sqlalchemy(dsn: str, count: int, seed: int) -> bool:
    """The same for SQLAlchemy, whose programs run as they are; whether there was no difference."""
    from tests.reality.sqlalchemy_runs import try_programs as try_sqlalchemy

    print(f"{SQLALCHEMY}, seed {seed}: ", end="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            tally = try_sqlalchemy(Path(folder), dsn, count, seed)
        except AssertionError as difference:
            print(f"a difference\n{difference}")
            return False
    print(f"0 differences in {tally}")
    return True


if __name__ == "__main__":
    sys.exit(main())
