"""`tenant-audit lab`: which experiments, on which server, and where what they found is written."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.errors import UserError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from auditor.lab.experiment import Experiment
    from auditor.lab.run import Report
    from auditor.report.look import Look


def run(options: Namespace, look: Look) -> int:
    """Run what is asked for and show it. 0 where all of it holds, 1 where something differs."""
    if options.names[:1] == ["prove"]:
        return _prove(options, look)
    from auditor.lab.run import experiments

    if options.names == ["list"]:
        for experiment in experiments(["all"]):
            print(f"{experiment.name:8}{experiment.title}")
        return 0
    wanted = experiments(options.names)
    _needs_driver()
    reports = _run(wanted, options, look)
    return 0 if all(report.outcome.holds for report in reports) else 1


def _needs_driver() -> None:
    try:
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise UserError("the laboratory needs PostgreSQL and its driver: pip install 'tenant-audit[lab]'") from error


def _prove(options: Namespace, look: Look) -> int:
    """Run the examples of rules' pages."""
    from auditor.lab.prove import Proven, provable, prove
    from auditor.lab.run import versions
    from auditor.lab.server import server
    from auditor.lab.show import show_proven, show_versions

    rules = provable(options.names[1:])
    _needs_driver()
    say, alone = _progress(options), options.json == "-"
    proven: list[Proven] = []
    with server(options.dsn) as running:
        found = versions(running)
        if not alone:
            show_versions(found, sys.stdout)
        for one in prove(rules, running, say):
            say("")
            proven.append(one)
            if not alone:
                show_proven(one, look, sys.stdout)
    if options.json is not None:
        data = {"versions": found, "proofs": [one.as_data() for one in proven]}
        _write(options.json, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    return 0 if all(one.holds for one in proven) else 1


def _run(wanted: Sequence[Experiment], options: Namespace, look: Look) -> list[Report]:
    # Whoever cancels a pipeline sends this; what was made is taken away as after Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run_on_server(wanted, options, look)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_on_server(wanted: Sequence[Experiment], options: Namespace, look: Look) -> list[Report]:
    from auditor.lab.run import run, versions
    from auditor.lab.server import server
    from auditor.lab.show import show, show_versions

    alone = options.json == "-"
    reports: list[Report] = []
    say = _progress(options)
    say("a server starts")
    with server(options.dsn) as running:
        found = versions(running)
        if not alone:
            say("")
            show_versions(found, sys.stdout)
        for report in run(wanted, running, options.full, options.seed, say):
            say("")
            reports.append(report)
            if not alone:
                show(report, look, sys.stdout)
    data = {"versions": found, "experiments": [report.as_data() for report in reports]}
    if options.json is not None:
        _write(options.json, json.dumps(data, indent=2) + "\n")
    if options.html is not None:
        from auditor.lab.page import page

        _write(options.html, page(found, reports))
    return reports


def _write(where: str, text: str) -> None:
    if where == "-":
        sys.stdout.write(text)
        return
    try:
        Path(where).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{where}: cannot be written: {error.strerror}") from error


def _progress(options: Namespace) -> Callable[[str], None]:
    """Tells how far it is, on one line that is written over; nothing where nobody looks on."""
    from auditor.report.look import is_terminal, plain

    if options.quiet or not is_terminal(sys.stderr):
        return lambda told: None

    def say(told: str) -> None:
        sys.stderr.write(f"\r\x1b[K{plain(told)}")
        sys.stderr.flush()

    return say
