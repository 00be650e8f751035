"""Rule packs: folders of rules. Ours comes through the same door as a team's own.

A rule is a module NAME.py that holds `RULE` and a `check` (or, for the rule on suppressions that hide nothing, a
`check_suppressions`), and its page NAME.md. Modules whose name begins with an underscore are no rules.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
import types
from typing import TYPE_CHECKING, NamedTuple

from auditor.errors import UserError, nearest, one_line, reason_of
from auditor.findings import Finding, Severity
from auditor.rule import Rule, means
from auditor.search import literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from auditor.directives import Unused
    from auditor.timeline import Timeline

    Check = Callable[[Timeline], Iterable[Finding]]
    CheckSuppressions = Callable[[Sequence[Unused]], Iterable[Finding]]


class LoadedRule(NamedTuple):
    """A rule, its check, and the files it came from. A rule has one of the two checks."""

    rule: Rule
    check: Check | None
    check_suppressions: CheckSuppressions | None
    module: str
    page: str


def own_pack() -> str:
    """The folder of our own rules: inside the package when it is installed, beside it in the repository."""
    here = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(here, "rules")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(here), "rules")


def load_packs(folders: Sequence[str]) -> tuple[LoadedRule, ...]:
    """The rules of all packs, in the order of their codes."""
    rules = [
        rule for number, folder in enumerate(folders) for rule in _load_pack(folder, f"_tenant_audit_pack_{number}")
    ]
    known: dict[str, LoadedRule] = {}
    for loaded in rules:
        for word in (loaded.rule.code, loaded.rule.name):
            other = known.setdefault(word, loaded)
            if other is not loaded:
                raise UserError(f"{loaded.module}: the rule is called {word}, as the one in {other.module} is")
    return tuple(sorted(rules, key=lambda loaded: loaded.rule.code))


def triggers(chosen: Sequence[LoadedRule], loaded: Sequence[LoadedRule]) -> tuple[bytes, ...]:
    """The patterns of the chosen rules, each once. A rule without any looks at what all the others look at."""
    asking = chosen if all(one.rule.triggers for one in chosen) else loaded
    return tuple(dict.fromkeys(trigger for one in asking for trigger in one.rule.triggers))


# Selecting


def select(rules: Sequence[LoadedRule], selected: Sequence[str], ignored: Sequence[str]) -> tuple[LoadedRule, ...]:
    """The rules that are asked for: all, or the selected ones, without those that are ignored.

    The more exact word wins: `TA101` over `TA1` over `TA`. Of two equal ones, to ignore wins.
    """
    wanted = selected or [""]
    return tuple(rule for rule in rules if _weight(rule.rule, wanted) > _weight(rule.rule, ignored))


def find(words: Iterable[str], rules: Sequence[LoadedRule], where: str) -> list[LoadedRule]:
    """The rules that the words mean. A word that means none is refused, with where it was written."""
    found: list[LoadedRule] = []
    for word in words:
        meant = [loaded for loaded in rules if means(word, loaded.rule)]
        if not meant:
            raise UserError(f'{where}: there is no rule "{word}"{suggestion(word, rules)}')
        found.extend(loaded for loaded in meant if loaded not in found)
    return found


def suggestion(word: str, rules: Iterable[LoadedRule]) -> str:
    """`; did you mean …?` for a word that is nearly a rule's."""
    known = [known for loaded in rules for known in (loaded.rule.code.lower(), loaded.rule.name)]
    hint = nearest(word, known)
    for loaded in rules:
        hint = hint.replace(f'"{loaded.rule.code.lower()}"', f'"{loaded.rule.code}"')
    return hint


def _weight(rule: Rule, words: Iterable[str]) -> int:
    """How exactly the words mean a rule: an empty word means all of them, and -1 is not at all."""
    weights = (
        len(rule.code) if word.lower() == rule.name else len(word) for word in words if not word or means(word, rule)
    )
    return max(weights, default=-1)


# Loading


def _load_pack(folder: str, private: str) -> Iterator[LoadedRule]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UserError(f"{folder}: the rule pack cannot be read: {reason_of(error)}") from error
    modules = [name for name in names if name.endswith(".py") and not name.startswith("_")]
    if not modules:
        raise UserError(f"{folder}: there is no rule in this folder")
    ours = folder == own_pack()
    for name in modules:
        yield _load_rule(os.path.join(folder, name), f"{private}_{name.removesuffix('.py')}", ours)


def _load_rule(file: str, private: str, ours: bool) -> LoadedRule:
    module = _run(file, private)
    rule = getattr(module, "RULE", None)
    if not isinstance(rule, Rule):
        raise UserError(f"{file}: a rule needs `RULE = Rule(…)`; a module that is none begins with an underscore")
    # What our own look for is tested: to compile all of it takes longer than to audit a small file.
    fault = _fault(rule) or ("" if ours else next(filter(None, map(_trigger_fault, rule.triggers)), ""))
    if fault:
        raise UserError(f"{file}: {fault}")
    check, check_suppressions = getattr(module, "check", None), getattr(module, "check_suppressions", None)
    if not callable(check) and not callable(check_suppressions):
        raise UserError(f"{file}: the rule {rule.name} has no function `check(timeline)`")
    page = file.removesuffix(".py") + ".md"
    if not os.path.isfile(page):
        raise UserError(f"{file}: the rule {rule.name} has no page {os.path.basename(page)} beside it")
    return LoadedRule(rule, check, check_suppressions, file, page)


def _run(file: str, private: str) -> types.ModuleType:
    """Run a module under a name of its own: sys.path stays as it is, and no other module is mistaken for it."""
    loader = importlib.machinery.SourceFileLoader(private, file)
    module = types.ModuleType(private)
    module.__file__ = file
    sys.modules[private] = module
    try:
        loader.exec_module(module)
    except Exception as error:
        del sys.modules[private]
        what = one_line(f"{type(error).__name__}: {error}")
        raise UserError(f"{file}: the rule cannot be loaded: {what}") from error
    return module


def _fault(rule: Rule) -> str:
    """What is wrong with a rule's identity, or nothing. Whoever writes a pack need not check types."""
    code, name, severity, triggers, yields_to = _anything(rule)
    if not isinstance(code, str) or not re.fullmatch(r"[A-Z]{2,8}[0-9]{3,4}", code):
        return f'a code is two to eight capital letters and three or four digits, as in "TA101"; this is {code!r}'
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f'a name is written in small letters with dashes, as in "session-tenant"; this is {name!r}'
    if not isinstance(severity, Severity):
        return f"the severity of {name} is {severity!r}, which is no Severity"
    if not isinstance(triggers, tuple):
        return f"the triggers of {name} are no tuple"
    if not isinstance(yields_to, tuple) or not all(isinstance(other, str) for other in yields_to) or code in yields_to:
        return f"{name} yields to {yields_to!r}, which is no tuple of other rules' codes"
    return ""


def _anything(rule: Rule) -> tuple[object, ...]:
    return rule.code, rule.name, rule.severity, rule.triggers, rule.yields_to


def _trigger_fault(trigger: object) -> str:
    if not isinstance(trigger, bytes):
        return f"the trigger {trigger!r} is not bytes"
    try:
        re.compile(trigger)
    except re.error as error:
        return f"the trigger {trigger!r} is no regular expression: {error}"
    literal = literals(trigger)[0]
    if len(literal) < 3:
        return f"the trigger {trigger!r} does not begin with three literal characters, which would slow down every run"
    if literal != literal.lower():
        return f"the trigger {trigger!r} holds capital letters, and files are searched in lower case"
    return ""
