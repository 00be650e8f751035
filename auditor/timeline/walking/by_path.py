"""What a program names by a dotted path in text: `import_string("shop.models.Letter")`, `importlib.import_module(…)`.

Such a path mostly stands in the settings of whoever deploys it, with the program's own as what is taken otherwise. What
the deployment chooses is not seen, so the program's own stands for it: it is what was written to be worked with.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.timeline.model.values import UNKNOWN, External, Made, Mapping, Module, Text, Unknown

if TYPE_CHECKING:
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.values import Value
    from auditor.timeline.walking.walker import Walker

#: Functions that find a module or what it has by its path.
FINDERS = frozenset(
    {
        *("importlib.import_module", "pydoc.locate", "pkgutil.resolve_name", "kombu.utils.imports.symbol_by_name"),
        *("django.utils.module_loading.import_string", "werkzeug.utils.import_string", "scrapy.utils.misc.load_object"),
    }
)
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def found(call: Invocation, walker: Walker) -> Value:
    """What one of the functions finds; unknown where the path is."""
    path = call.argument(0, "dotted_path", "import_name", "name")
    dotted = path.value.replace(":", ".") if isinstance(path, Text) else ""
    if not _PATH.fullmatch(dotted):
        return UNKNOWN
    into, program = call.frame.module, walker.program
    whole = program.module(dotted, into.file)
    if whole is not None:
        return Module(whole)
    home, _, attribute = dotted.rpartition(".")
    module = program.module(home, into.file)
    return External(dotted) if module is None else walker.names.member(module, attribute) or UNKNOWN


def default(held: Value, call: Invocation) -> Value:
    """What `getattr(settings, NAME, default)` gives where nothing is known of NAME: a path, or settings in a dict."""
    given = call.argument(2)
    if not isinstance(held, (Unknown, Made, External)):
        return held
    if isinstance(given, Mapping) and not given.pairs:
        return Mapping((), open=True)
    return given if isinstance(given, Text) and _PATH.fullmatch(given.value) else held
