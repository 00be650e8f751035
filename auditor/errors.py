"""What a person must mend before there can be an audit: one clear line on stderr and exit code 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class UserError(Exception):
    """A wrong option, path, configuration or rule pack. The message is one line: what is wrong and what to do."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "…"?` for the known word that is most like this one, or nothing when none is."""
    from difflib import get_close_matches

    matches = get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return f'; did you mean "{matches[0]}"?' if matches else ""


def reason_of(error: OSError) -> str:
    """Why the system refused, in its own words: `permission denied`."""
    return (error.strerror or type(error).__name__).lower()


def one_line(text: str) -> str:
    """Text for a message, on one line whatever stands in it."""
    return " ".join(text.split())
