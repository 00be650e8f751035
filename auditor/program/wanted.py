"""Looking for any of many patterns in the words of functions, of which few hold one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.search import compiled, literals

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    Patterns = Sequence[re.Pattern[str]]


class Wanted:
    """Patterns of which one is looked for. Each is compiled when the longest literal in it was found: few ever are."""

    def __init__(self, triggers: Iterable[bytes]) -> None:
        self._keys: dict[str, list[str]] = {}
        for trigger in triggers:
            self.add(trigger)

    def add(self, trigger: bytes) -> None:
        self._keys.setdefault(max(literals(trigger), key=len).decode(), []).append(trigger.decode())

    def within(self, text: str) -> Patterns:
        """Those that may stand in a text."""
        return [compiled(pattern) for key, patterns in self._keys.items() if key in text for pattern in patterns]


def is_any_in(patterns: Patterns, word: str) -> bool:
    """Whether one of them stands in a word."""
    return any(pattern.search(word) for pattern in patterns)
