"""The command line: the way from paths to an exit code. The options themselves are in `auditor.options`."""

from __future__ import annotations

import gc
import os
import sys

from auditor import __version__

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than to say the version
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from auditor.audit import Examined
    from auditor.config import Config
    from auditor.files import Inventory
    from auditor.findings import Finding
    from auditor.lines import Lines
    from auditor.packs import LoadedRule
    from auditor.report import Summary
    from auditor.report.look import Look
    from auditor.timeline import Timeline

FOUND, FAILED, INTERRUPTED = 1, 2, 130

#: So many files are few.
SMALL = 100


def run() -> int:
    """Run the command as all that a process does."""
    code = main()
    # A Python that ends looks through all that is left for what only refers to itself, to free what the system frees
    # at once: after a large tree that takes a fifth of the run.
    gc.freeze()
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:  # nothing needs to be imported for it
        print(f"tenant-audit {__version__}")
        return 0
    from auditor.errors import UserError

    verbose = False
    try:
        _write_anything()
        from auditor.options import parse

        options = parse(words)
        verbose = options.verbose
        code = COMMANDS[options.command](options)
        sys.stdout.flush()
        return code
    except UserError as error:
        return _fail(str(error), error.__cause__ if verbose else None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        from auditor.report.output import hush

        hush(sys.stdout)
        return 0
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return _fail(f"internal error, please report it: {told}; with -v you see where", error if verbose else None)


def check(options: Namespace) -> int:
    """Audit and report."""
    import time

    from auditor.audit import keep, suppress
    from auditor.files import Role
    from auditor.lines import SourceLines
    from auditor.packs import triggers
    from auditor.report import Summary
    from auditor.sources import find_files

    started, cwd = time.perf_counter(), _here()
    config = configure(options, options.paths, cwd)
    loaded, rules = choose(options, config)
    inventory = find_files(options.paths, config, cwd)
    found, lines = examine(inventory, rules, triggers(rules, loaded), config, options), SourceLines(cwd)
    outcome = suppress(found.findings, found.directives, loaded, rules, lines)
    findings = keep(outcome.kept, inventory, config, lines)
    suppressed, files = keep(outcome.suppressed, inventory, config, lines), inventory.of_role(Role.REPORTED)
    elapsed = time.perf_counter() - started
    summary = Summary(len(files), found.skipped, len(suppressed), elapsed)
    if options.verbose:
        _tell(config, rules, inventory, summary)
    _publish(findings, summary, lines, config, options)
    return 0 if options.exit_zero or all(finding.severity < config.fail_on for finding in findings) else FOUND


def rule(options: Namespace) -> int:
    """Print the rules, or the page of one."""
    from auditor.packs import load_packs, own_pack
    from auditor.report.look import is_terminal
    from auditor.report.output import write
    from auditor.report.rule_view import show

    rules = load_packs([own_pack(), *options.rules])
    write(show(rules, options.rule, options.format, _look(options), is_terminal(sys.stdout)), sys.stdout)
    return 0


def timeline(options: Namespace) -> int:
    """Print what was understood of a file or a function."""
    from auditor.report.timeline_view import show

    path, colon, function = options.path.rpartition(":")
    if not colon or os.path.lexists(options.path):  # a name may hold a colon
        path, function = options.path, ""
    show(_timeline_of(path, options), function or None, sys.stdout)
    return 0


def _timeline_of(path: str, options: Namespace, *words: str) -> Timeline:
    """All that is understood of the project at a path: what rules look for, and what holds one of the words."""
    from auditor.packs import load_packs, own_pack, triggers
    from auditor.sources import find_files

    cwd = _here()
    config = configure(options, [path], cwd)
    rules = load_packs([own_pack(), *options.rules])
    looked_for = (*triggers(rules, rules), *(word.encode() for word in words))
    return understand(find_files([path], config, cwd), looked_for, config, options)


def reference(options: Namespace) -> int:
    """Write the schema and the workers to migrate to, or look whether a database carries what they need."""
    from auditor.errors import UserError

    if (options.folder is None) == (options.check is None) or (options.check is not None and options.source):
        raise UserError("either a folder to write to, or --check and the database to look at; see --help")
    return _check_database(options) if options.check is not None else _write_reference(options)


def _check_database(options: Namespace) -> int:
    from auditor.reference.check import check
    from auditor.reference.write import Names
    from auditor.report.look import plain

    missing = check(options.check, Names.of(options).checked())
    for told in missing:
        print(plain(told))
    if not missing and not options.quiet:
        print("the database carries what the workers need")
    return FOUND if missing else 0


def _write_reference(options: Namespace) -> int:
    from pathlib import Path

    from auditor.reference.write import Names, files, write
    from auditor.report.look import plain

    questions: tuple[str, ...] = ()
    if options.source is None:
        texts, next_step = files(Names.of(options)), "schema.sql"
    else:
        from auditor.reference import migration, seen

        table = seen.choose(_timeline_of(options.source, options, "pg_try_advisory"), options.jobs_table)
        # Once more, with all that names the table: what makes jobs need not be of interest to any rule.
        found = seen.look(_timeline_of(options.source, options, table), table)
        names = Names.of(options, seen.names(found))
        texts, questions = migration.files(found, names.checked())
        next_step = "migration.sql, then schema.sql"
    for path in write(Path(options.folder), texts, options.force):
        print(plain(str(path)))
    for number, asked in enumerate(questions, 1):
        print(plain(f"QUESTION {number}. {asked}"), file=sys.stderr)
    if questions:
        print("migration.sql does nothing until these are answered in it", file=sys.stderr)
    elif not options.quiet:
        print(f"run {next_step} in your database, and read guide.md", file=sys.stderr)
    return 0


def lab(options: Namespace) -> int:
    """Show faults on a real PostgreSQL."""
    from auditor.lab.command import run

    return run(options, _look(options))


COMMANDS: Mapping[str, Callable[[Namespace], int]] = {
    "check": check,
    "lab": lab,
    "reference": reference,
    "rule": rule,
    "timeline": timeline,
}


# The steps


def configure(options: Namespace, paths: Sequence[str], cwd: str) -> Config:
    """The configuration, with what the options say instead."""
    from auditor.options import configure

    return configure(options, paths, cwd)


def choose(options: Namespace, config: Config) -> tuple[tuple[LoadedRule, ...], tuple[LoadedRule, ...]]:
    """All rules that are loaded, and those of them that are asked for."""
    from auditor.packs import find, load_packs, own_pack, select

    loaded = load_packs([own_pack(), *options.rules])
    origin = config.file or "configuration"
    for name in ("select", "ignore"):
        given = getattr(options, name, None)
        find(given or (), loaded, f"--{name}")
        find((word for word in getattr(config, name) if word not in (given or ())), loaded, f"{origin}: {name}")
    for glob, words in config.per_path_ignores:
        find(words, loaded, f'{origin}: per-path-ignores."{glob}"')
    return loaded, select(loaded, config.select, config.ignore)


def examine(
    inventory: Inventory, rules: Sequence[LoadedRule], words: Sequence[bytes], config: Config, options: Namespace
) -> Examined:
    """Ask the rules, unless no file holds a word that any of them looks for: then none is broken."""
    from auditor.audit import Examined, audit
    from auditor.search import search

    # A small tree is searched faster than the rest of the auditor is imported, so it may be searched twice.
    if len(inventory.files) < SMALL and not search(inventory.files, words):
        return Examined([], (), inventory.skipped)
    timeline = understand(inventory, words, config, options)
    program = timeline.program
    return Examined(audit(timeline, rules), program.directives, tuple(program.skipped))


def understand(inventory: Inventory, words: Sequence[bytes], config: Config, options: Namespace) -> Timeline:
    """Read the program, as far as it holds one of the words, and walk it."""
    from auditor.program import read_program
    from auditor.progress import silent
    from auditor.report.look import is_terminal
    from auditor.report.progress import Bar
    from auditor.timeline import walk

    if options.quiet or not is_terminal(sys.stderr):
        return walk(read_program(inventory, words, config, options.jobs, silent), silent)
    bar = Bar(sys.stderr)
    try:
        return walk(read_program(inventory, words, config, options.jobs, bar), bar)
    finally:
        bar.close()


def _publish(findings: Sequence[Finding], summary: Summary, lines: Lines, config: Config, options: Namespace) -> None:
    from auditor.report import Report
    from auditor.report.look import Look, look_at
    from auditor.report.output import Streams, Wanted, publish

    look = _look(options) if options.output is None else Look(colour=options.color == "always")
    streams = Streams(sys.stdout, sys.stderr, look_at(sys.stderr, options.color, os.environ))
    wanted = Wanted(config.format, options.output, options.quiet, options.statistics)
    publish(Report(findings, summary, lines, look), wanted, streams)


def _tell(config: Config, rules: Sequence[LoadedRule], inventory: Inventory, summary: Summary) -> None:
    """What -v tells beside the findings."""
    from collections import Counter

    from auditor.report.look import plain

    roles = Counter(file.role for file in inventory.files)
    found = ", ".join(f"{count} {role.value}" for role, count in sorted(roles.items(), key=lambda pair: pair[0].value))
    print(f"configuration: {config.file or 'none, so the defaults'}", file=sys.stderr)
    print(f"rules: {' '.join(loaded.rule.code for loaded in rules)}", file=sys.stderr)
    print(f"files: {found}", file=sys.stderr)
    for path, reason in summary.skipped:
        print(f"skipped: {plain(path)}: {plain(reason)}", file=sys.stderr)


def _look(options: Namespace) -> Look:
    from auditor.report.look import look_at

    return look_at(sys.stdout, options.color, os.environ)


def _here() -> str:
    from auditor.errors import UserError

    try:
        return os.getcwd()
    except OSError as error:
        raise UserError("the working directory is not there any more; go to one that is") from error


def _write_anything() -> None:
    """A file name or source line that the encoding of a stream lacks is spelt, and never ends a run."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str, error: BaseException | None) -> int:
    from auditor.errors import one_line
    from auditor.report.look import plain

    if error is not None:
        import traceback

        traceback.print_exception(error)
    print(f"tenant-audit: {plain(one_line(message))}", file=sys.stderr)
    return FAILED
