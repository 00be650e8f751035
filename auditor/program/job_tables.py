"""Code that changes a table which jobs are claimed from: it ends jobs, prolongs leases, or brings stalled ones back.

Such code need not hold a word that any rule looks for; which tables to look for is only known once claims were seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.files import Role
from auditor.program.catalogue import UNNAMED
from auditor.program.reach import Reach
from auditor.program.relevance import DEPTH, Telling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.program.program import Program

#: What comes before the name of a table that is changed.
_CHANGES = (r"update\s+(?:only\s+)?", r"delete\s+from\s+(?:only\s+)?")
#: Calls by which a mapper changes rows, or writes back what was changed.
_BY_CALL = frozenset(
    {"update", "delete", "save", "bulk_update", "bulk_save_objects", "bulk_update_mappings", "commit", "flush", "begin"}
    | {"aupdate", "adelete", "asave", "abulk_update", "atomic", "execute", "values"}
)
#: So many calls away is an object asked for that a function changes.
_NEAR = 2
#: A table that is only named at run time.
_OPEN = tuple(rf"{change}[\w.\"]*\{{".encode() for change in _CHANGES)


class Changing:
    """The functions that may come to a change of a job table.

    `claimed` holds the tables that something claims from, each with the paths of the files in which it does. A table
    that is only named at run time is looked for in those files alone. `models` are the classes that stand for such
    tables, with the classes that they are derived from and those that make their queries.
    """

    def __init__(
        self, program: Program, claimed: Mapping[str, frozenset[str]], models: frozenset[ClassInfo] = frozenset()
    ) -> None:
        names = sorted(table for table in claimed if UNNAMED not in table)
        triggers = [trigger for name in names for trigger in _triggers_of(name)]
        classes = frozenset(info.node.name for info in models)
        _read_more(program, [*triggers, *(rf"\b{re.escape(name.lower())}\b".encode() for name in sorted(classes))])
        self._by_model = Reach(DEPTH)
        #: What asks for objects of the models; what it gives them to may change them and name none.
        self._asking = Reach(_NEAR)
        self._named = Telling(triggers, _never)
        self._open = Telling(_OPEN, _never)
        paths = {path for table, files in claimed.items() if UNNAMED in table for path in files}
        called = {table.removeprefix(UNNAMED) for table in claimed if table.startswith(UNNAMED)} - {""}
        for module in program.modules:
            if triggers:
                self._named.add(module)
            if module.path in paths:
                self._open.add(module)
                # A class that a repository is given stands for a table that nobody names.
                self._by_model.add(module, (one for one in module.functions() if _changes(one, called)))
            if models:
                changing = (
                    one
                    for one in module.functions()
                    if one.words.names & _BY_CALL and (one.owner in models or one.words.names & classes)
                )
                self._by_model.add(module, changing)
                self._asking.add(module, (one for one in module.functions() if one.words.names & classes))

    def __contains__(self, function: FunctionInfo) -> bool:
        if function in self._named or function in self._open or function in self._by_model:
            return True
        return bool(function.words.names & _BY_CALL) and function in self._asking


def _changes(function: FunctionInfo, called: set[str]) -> bool:
    """Whether a function changes rows of what the program calls so."""
    names = function.words.names
    return bool(names & _BY_CALL) and any(name.lstrip("_").lower() in called for name in names)


def _triggers_of(table: str) -> list[bytes]:
    name = re.escape(table.lower())
    return [rf"{change}[\w.\"]*\b{name}\b".encode() for change in _CHANGES]


def _never(setting: str) -> bool:
    return False


def _read_more(program: Program, triggers: list[bytes]) -> None:
    """Read the files that change one of the tables and held nothing else that was looked for."""
    from auditor.search import search

    tests = program.config.include_tests
    files = [
        file for file in program.inventory.files if (tests or file.role is not Role.TEST) and not program.has_read(file)
    ]
    for file in search(files, triggers) if files and triggers else ():
        if file.language == "sql":
            program.load_sql(file)
            continue
        module = program.load(file)
        if module is not None and module not in program.modules:
            program.modules.append(module)
