"""`tenant-audit lab`: which experiments, on which server, and where what they found is written."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from auditor.errors import UserError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from auditor.lab.experiment import Experiment
    from auditor.lab.prove import Proven
    from auditor.lab.run import Report
    from auditor.lab.server import Server
    from auditor.report.look import Look

    Say = Callable[[str], None]

_Found = TypeVar("_Found")


def run(options: Namespace, look: Look) -> int:
    """Run what is asked for and show it. 0 where all of it holds, 1 where something differs."""
    if options.names[:1] == ["prove"]:
        return _prove(options, look)
    from auditor.lab.run import experiments

    if options.names == ["list"]:
        for experiment in experiments(["all"]):
            print(f"{experiment.name:8}{experiment.title}")
        return 0
    return _experiment(experiments(options.names), options, look)


def _experiment(wanted: Sequence[Experiment], options: Namespace, look: Look) -> int:
    """Run experiments."""
    from auditor.lab.run import run
    from auditor.lab.show import show

    def work(server: Server, say: Say) -> Iterator[Report]:
        return run(wanted, server, options.full, options.seed, say)

    found, reports = _on_server(options, work, lambda report: show(report, look, sys.stdout))
    _write_json(options, {"versions": found, "experiments": [report.as_data() for report in reports]})
    if options.html is not None:
        from auditor.lab.page import page

        _write(options.html, page(found, reports))
    return 0 if all(report.outcome.holds for report in reports) else 1


def _prove(options: Namespace, look: Look) -> int:
    """Run the examples of rules' pages."""
    from auditor.lab.prove import provable, prove
    from auditor.lab.show import show_proven

    if options.html is not None:
        raise UserError("the page is made of experiments; lab prove writes what it finds with --json")
    rules = provable(options.names[1:])

    def work(server: Server, say: Say) -> Iterator[Proven]:
        return prove(rules, server, say)

    found, proven = _on_server(options, work, lambda one: show_proven(one, look, sys.stdout))
    _write_json(options, {"versions": found, "proofs": [one.as_data() for one in proven]})
    return 0 if all(one.holds for one in proven) else 1


def _on_server(
    options: Namespace, work: Callable[[Server, Say], Iterator[_Found]], show: Callable[[_Found], None]
) -> tuple[dict[str, str], list[_Found]]:
    """The versions of a server and drivers, and all that comes of the work there, each shown as it comes."""
    try:
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise UserError("the laboratory needs PostgreSQL and its driver: pip install 'tenant-audit[lab]'") from error
    from auditor.lab.run import versions
    from auditor.lab.server import server
    from auditor.lab.show import show_versions

    say, alone, found = _progress(options), options.json == "-", list[_Found]()
    # Whoever cancels a pipeline sends this; what was made is taken away as after Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        say("a server starts")
        with server(options.dsn) as running:
            known = versions(running)
            if not alone:
                say("")
                show_versions(known, sys.stdout)
            for one in work(running, say):
                say("")
                found.append(one)
                if not alone:
                    show(one)
    finally:
        signal.signal(signal.SIGTERM, before)
    return known, found


def _write_json(options: Namespace, data: Mapping[str, object]) -> None:
    if options.json is not None:
        _write(options.json, json.dumps(data, indent=2) + "\n")


def _write(where: str, text: str) -> None:
    if where == "-":
        sys.stdout.write(text)
        return
    try:
        Path(where).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{where}: cannot be written: {error.strerror}") from error


def _progress(options: Namespace) -> Say:
    """Tells how far it is, on one line that is written over; nothing where nobody looks on."""
    from auditor.report.look import is_terminal, plain

    if options.quiet or not is_terminal(sys.stderr):
        return lambda told: None

    def say(told: str) -> None:
        sys.stderr.write(f"\r\x1b[K{plain(told)}")
        sys.stderr.flush()

    return say
