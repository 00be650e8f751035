"""The options of the command line, and what they say in place of the configuration."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from auditor import __version__
from auditor.config import FORMATS, read_config
from auditor.errors import UserError, nearest
from auditor.findings import Confidence, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.config import Config

COMMANDS = ("check", "lab", "reference", "rule", "timeline")

_DESCRIPTION = """\
Reads Python workers and SQL, and tells from source alone as which tenant each statement runs, what a rollback
undoes and what the next job inherits."""

_EPILOG = """\
commands:
  tenant-audit [check] [PATH …]         audit; this is what happens without a command
  tenant-audit rule [NAME|CODE]         the rules, or the page of one
  tenant-audit timeline PATH[:FUNCTION] what was understood: transactions, statements, tenants
  tenant-audit reference DIR            write the schema and the workers to migrate to, with your names;
                                        --from PATH takes them from your code, and adds a migration
  tenant-audit reference --check DSN    whether a database carries what they need
  tenant-audit lab [NAME …]             see each fault happen on a real PostgreSQL; `lab list` names them
  tenant-audit lab prove [RULE …]       run the examples of rules' pages there, and see what they show
  A folder that is named like a command is audited as ./rule.

examples:
  tenant-audit src/                     audit the workers below src/
  tenant-audit --select TA1,TA305       look for these only
  tenant-audit --format github          annotate a pull request
  tenant-audit rule session-tenant      what the rule means, and how to mend what it finds

exit codes:
  0  nothing to report    1  findings at or above --fail-on    2  wrong use or configuration, or nothing to read

Options are also read from [tool.tenant-audit] in pyproject.toml or from tenant-audit.toml, the nearest one upward.
A comment `# tenant-audit: ignore[session-tenant] why` or `-- tenant-audit: ignore[TA101] why` hides a finding.
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else does."""

    def __init__(self, command: str, description: str, epilog: str = "", usage: str | None = None) -> None:
        super().__init__(
            prog=f"tenant-audit {command}".rstrip(),
            description=description,
            epilog=epilog,
            usage=usage,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )

    def error(self, message: str) -> NoReturn:
        hint = ""
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0].split("=")[0]
        if unknown.startswith("--"):
            hint = nearest(unknown, [option for action in self._actions for option in action.option_strings])
        raise UserError(f"{message.removeprefix('argument ')}{hint or f'; see {self.prog} --help'}")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options, with the command in `command`. A command is the first word or it is none."""
    command = words[0] if words and words[0] in COMMANDS else ""
    rest = list(words[1:] if command else words)
    if command == "lab":
        return _for_lab().parse_args(rest, argparse.Namespace(command="lab"))
    if command == "reference":
        return _for_reference().parse_args(rest, argparse.Namespace(command="reference", rules=[]))
    if command == "rule":
        return _for_rule().parse_args(rest, argparse.Namespace(command="rule"))
    if command == "timeline":
        return _for_timeline().parse_args(rest, argparse.Namespace(command="timeline"))
    return _for_check().parse_intermixed_args(rest, argparse.Namespace(command="check"))


def configure(options: argparse.Namespace, paths: Sequence[str], cwd: str) -> Config:
    """The configuration, with what the options say instead."""
    config = read_config(options.config, paths, cwd)
    said = {name: getattr(options, name, None) for name in ("select", "ignore", "include_tests", "format")}
    for name, kind in (("min_severity", Severity), ("min_confidence", Confidence), ("fail_on", Severity)):
        word = getattr(options, name, None)
        said[name] = kind(word) if word else None
    if config.rules and not options.rules and not options.quiet:
        print(
            f"tenant-audit: {config.file} names rule packs ({', '.join(config.rules)}); they were not loaded, because a"
            " pack is code and runs only when the command line asks for it: --rules FOLDER",
            file=sys.stderr,
        )
    return config.but(**said)


def _for_check() -> _Parser:
    parser = _Parser("", description=_DESCRIPTION, epilog=_EPILOG, usage="tenant-audit [check] [options] [PATH …]")
    reads = parser.add_argument_group("what is read")
    reads.add_argument("paths", nargs="*", metavar="PATH", help="files and folders; else the configured paths, else .")
    reads.add_argument("--include-tests", action="store_true", default=None, help="report on test code too")
    _add_config(reads)
    _add_rules(parser)
    shows = parser.add_argument_group("what is shown")
    shows.add_argument("--format", choices=FORMATS, help="how findings are written (default: text)")
    shows.add_argument("--output", metavar="FILE", help="write the report there, and the summary to standard error")
    shows.add_argument("--statistics", action="store_true", help="count the findings of each rule")
    _add_color(shows)
    runs = parser.add_argument_group("how it runs")
    runs.add_argument("--fail-on", choices=_words(Severity), help="exit with 1 from this severity (default: warning)")
    runs.add_argument("--exit-zero", action="store_true", help="exit with 0 whatever is found")
    runs.add_argument("--jobs", type=_jobs, metavar="N", help="how many processes (default: one a processor)")
    _add_common(runs)
    return parser


def _for_rule() -> _Parser:
    parser = _Parser("rule", description="Lists the rules, or prints the page of one. Nothing is read or fetched.")
    group = parser.add_argument_group("options")
    group.add_argument("rule", nargs="?", metavar="NAME|CODE", help="session-tenant, TA101, or TA1 for a list")
    group.add_argument("--format", choices=("text", "json"), default="text", help="how it is written (default: text)")
    group.add_argument("--rules", action="append", default=[], metavar="FOLDER", help="a rule pack of your own")
    _add_color(group)
    _add_common(group)
    return parser


def _for_timeline() -> _Parser:
    parser = _Parser(
        "timeline",
        description="Prints what was understood of a file or folder: for each connection its transactions, the\n"
        "statements, the tenant each runs as, and what is rolled back with what.",
    )
    group = parser.add_argument_group("options")
    group.add_argument("path", metavar="PATH[:FUNCTION]", help="what to look at; the rest of its project is read too")
    group.add_argument("--rules", action="append", default=[], metavar="FOLDER", help="a rule pack of your own")
    group.add_argument("--jobs", type=_jobs, metavar="N", help="how many processes (default: one a processor)")
    _add_config(group)
    _add_common(group)
    return parser


def _for_reference() -> _Parser:
    parser = _Parser(
        "reference",
        description="Writes a schema and workers that this audit finds nothing in, with a short guide: files to own.",
    )
    group = parser.add_argument_group("options")
    group.add_argument("folder", nargs="?", metavar="DIR", help="where to write; a package of your project")
    group.add_argument(
        "--check", metavar="DSN", help="look instead whether a database has it all; as the worker's login"
    )
    group.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        help="take the names from the code there, and write what takes its jobs table to the reference's",
    )
    group.add_argument("--force", action="store_true", help="write over files that are there")
    group.add_argument("--jobs", type=_jobs, metavar="N", help="how many processes read (default: one a processor)")
    _add_config(group)
    names = parser.add_argument_group("your names", "they win over what --from finds")
    names.add_argument("--schema", metavar="NAME", help="of the tables; roles are named after it (default: app)")
    names.add_argument("--jobs-table", metavar="NAME", help="(default: jobs)")
    names.add_argument("--tenant-column", metavar="NAME", help="(default: tenant_id)")
    names.add_argument("--tenant-type", metavar="TYPE", help="bigint, integer, text, uuid (default: bigint)")
    names.add_argument("--setting", metavar="NAME", help="what policies read (default: app.tenant)")
    _add_common(group)
    return parser


def _for_lab() -> _Parser:
    parser = _Parser(
        "lab",
        description="Makes each fault happen on a real PostgreSQL, and holds what is seen against what was found\n"
        "before. Exit code 0: all of it holds; 1: something differs; 2: wrong use, or no server.",
    )
    group = parser.add_argument_group("options")
    names = "experiments, `all` (the default), or `list`; or `prove` and rules"
    group.add_argument("names", nargs="*", metavar="NAME", help=names)
    group.add_argument(
        "--dsn",
        metavar="DSN",
        help="use this database, which has to be empty; else $TENANT_AUDIT_DSN, else a server of its own",
    )
    size = group.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="all of them within three minutes (the default)")
    size.add_argument("--full", action="store_true", help="as many jobs as were measured before")
    group.add_argument("--json", metavar="FILE", help="write what was found there, too; - for standard output instead")
    group.add_argument("--html", metavar="FILE", help="write a page with tables and pictures of experiments, too")
    group.add_argument("--seed", type=int, default=1, metavar="N", help="for what is random (default: 1)")
    _add_color(group)
    _add_common(group)
    return parser


# Groups


def _add_rules(parser: _Parser) -> None:
    group = parser.add_argument_group(
        "what is looked for", "RULES are names, codes or beginnings of codes: session-tenant,TA3"
    )
    group.add_argument(
        "--select", action="extend", type=_list, metavar="RULES", help="these only, whatever is configured"
    )
    group.add_argument("--ignore", action="extend", type=_list, metavar="RULES", help="not these")
    group.add_argument("--min-severity", choices=_words(Severity), help="leave out what is milder (default: note)")
    group.add_argument(
        "--min-confidence", choices=_words(Confidence), help="leave out what is less sure (default: medium)"
    )
    group.add_argument("--rules", action="append", default=[], metavar="FOLDER", help="a rule pack of your own, too")


def _add_config(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--config", metavar="FILE", help="read this configuration instead of the nearest one")


def _add_color(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="(default: auto)")


def _add_common(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-q", "--quiet", action="store_true", help="say nothing but findings")
    group.add_argument("-v", "--verbose", action="store_true", help="tell what was read and what was left out")
    group.add_argument("--version", action="version", version=f"tenant-audit {__version__}", help="show the version")
    group.add_argument("-h", "--help", action="help", help="show this help")


def _words(kind: type[Severity] | type[Confidence]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


def _list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number of processes")
