"""Runs experiments: a server, a place for each, and what each found."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from auditor.errors import UserError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from auditor.lab.experiment import Experiment, Outcome
    from auditor.lab.server import Server

#: In the order in which they are told; each is a module of that name beside this one.
NAMES = ("leak", "reset", "poison", "crash", "lease", "vacuum", "drift", "policy", "claim", "vanish")
#: Told with the server's version, where they are there.
_DRIVERS = ("psycopg", "psycopg_pool", "psycopg2", "asyncpg", "sqlalchemy", "django")


@dataclass(frozen=True)
class Report:
    """What one experiment found, and how many seconds it took."""

    experiment: Experiment
    outcome: Outcome
    seconds: float

    def as_data(self) -> dict[str, Any]:
        rows = [
            {"what": row.what, "article": row.article, "here": row.here, "holds": row.holds, **row.figures}
            for row in self.outcome.rows
        ]
        return {
            "name": self.experiment.name,
            "holds": self.outcome.holds,
            "verdict": self.outcome.verdict,
            "rows": rows,
            "seconds": round(self.seconds, 3),
        }


def experiments(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all of them for none or for "all"."""
    wanted = NAMES if not names or "all" in names else tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in NAMES:
            raise UserError(f"there is no experiment {name!r}{nearest(name, NAMES) or '; tenant-audit lab list'}")
    return [load(name) for name in wanted]


def load(name: str) -> Experiment:
    """The experiment of that name."""
    found: Experiment = importlib.import_module(f"auditor.lab.{name}").EXPERIMENT
    return found


def run(
    wanted: Sequence[Experiment], server: Server, full: bool, seed: int, say: Callable[[str], None]
) -> Iterator[Report]:
    """Run each in a place of its own on the server, which is left as it was."""
    import logging

    from auditor.lab.place import Place

    # What a driver has to say of faults that are made on purpose is what the tables tell.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    for experiment in wanted:
        place = Place(server.dsn, full, seed, partial(_say, say, experiment.name))
        started = time.perf_counter()
        say(f"{experiment.name}: prepares")
        try:
            place.prepare()
            outcome = experiment.run(place)
        finally:
            place.remove()
        yield Report(experiment, outcome, time.perf_counter() - started)


def _say(say: Callable[[str], None], name: str, told: str) -> None:
    say(f"{name}: {told}")


def versions(server: Server) -> dict[str, str]:
    """Of the server and the drivers that are here."""
    from importlib.metadata import packages_distributions, version

    installed = packages_distributions()
    found = {name: version(installed[name][0]) for name in _DRIVERS if name in installed}
    return {"postgresql": server.version, **found}
