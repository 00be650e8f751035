#!/usr/bin/env python3
"""Holds the audit against real runs of generated worker programs, in as many as you have time for.

    python benchmarks/reality.py [--driver NAME] [--count N] [--seed S] [--most RUNS]

`--driver all`, the default, takes one driver after the other, and ends with a table: programs, differences, the share
of probes of which the audit knows nothing. `--driver all --count 2000 --most 3` takes one or two minutes a driver.

There are two kinds of programs. Those of `tests/reality/faults` are audited, then run on a server of our own as they
are and with every step failing in turn: at every probe the transaction status and the tenant must be what the audit has
said. `--most` bounds how many steps of a program are made to fail, which leaves time for more programs. In those of
`tests/reality/runs.py` a statement fails that always does, and also what the audit has said and the server does not
show is a difference.

A driver is left at its first difference, with the smallest program that shows it. Ends with exit code 1 after a
difference, or when the audit knows nothing of 5 % of the probes of a driver. Stopped by Ctrl-C, it ends with 130: the
row of the driver at hand tells how far it came, and is marked as cut. Needs the extra `test`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auditor.lab.server import server
from tests.reality import runs
from tests.reality.faults import comparison
from tests.reality.faults.programs import Dialect

#: The share of probes of which the audit may know nothing, and still be held to know its drivers.
MOST_UNKNOWN = 0.05
#: The exit code of what Ctrl-C has ended, as shells tell it.
INTERRUPTED = 130
FAILING = {dialect.value: dialect for dialect in Dialect}
DRIVERS = (*FAILING, *runs.PROGRAMS)


class Row(NamedTuple):
    driver: str
    programs: int
    probes: int
    share_of_unknown: float
    differences: int
    seconds: float
    #: Stopped by Ctrl-C before all programs had run.
    is_cut: bool

    @property
    def is_good(self) -> bool:
        return not self.differences and self.share_of_unknown < MOST_UNKNOWN

    def __str__(self) -> str:
        told = f"{self.driver:29} {self.programs:8} {self.probes:8} {self.differences:11} "
        return told + f"{100 * self.share_of_unknown:8.2f} % {self.seconds:6.0f} s" + "  (cut)" * self.is_cut


HEAD = f"{'driver':29} {'programs':>8} {'probes':>8} {'differences':>11} {'unknown':>10} {'time':>8}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="programs of each driver (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--driver", choices=["all", *DRIVERS], default="all", metavar="NAME", help=", ".join(DRIVERS))
    parser.add_argument("--most", type=int, default=1000, help="runs of each program beside the first (default: 1000)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    # Programs that leave a transaction open are told so by their drivers.
    logging.disable(logging.CRITICAL)
    rows = []
    with server() as running:
        for driver in DRIVERS if given.driver == "all" else [given.driver]:
            print(f"{driver}, seed {given.seed}: ", end="", flush=True)
            rows.append(held(driver, running.dsn, given.count, given.seed, given.most))
            if rows[-1].is_cut:
                break
    print("\n".join(["", HEAD, *map(str, rows)]))
    if rows[-1].is_cut:
        return INTERRUPTED
    return int(not all(row.is_good for row in rows))


def held(driver: str, dsn: str, count: int, seed: int, most: int) -> Row:
    """Hold the programs of one driver against the server; what there is to say of them is printed."""
    started = time.monotonic()
    tally: comparison.Tally | runs.Tally = comparison.Tally() if driver in FAILING else runs.Tally()
    differences, is_cut = 0, False
    try:
        if isinstance(tally, comparison.Tally):
            comparison.try_programs(FAILING[driver], dsn, count, most, seed, tally)
        else:
            with tempfile.TemporaryDirectory() as folder:
                runs.try_programs(driver, Path(folder), dsn, count, seed, tally)
    except AssertionError as difference:
        differences = 1
        print(f"a difference\n{difference}")
    except KeyboardInterrupt:
        is_cut = True
        print(f"stopped after {tally}", flush=True)
    else:
        print(f"0 differences in {tally}", flush=True)
    seconds = time.monotonic() - started
    return Row(driver, tally.programs, tally.probes, tally.share_of_unknown, differences, seconds, is_cut)


if __name__ == "__main__":
    sys.exit(main())
