"""Comments that ask the audit to be silent where it has nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.rule import Finding, Unused

RULE = Rule("TA902", "unused-suppression", Severity.NOTE, triggers=(rb"tenant-audit\s*:",))

#: By problem: what is so, and what to do.
_TOLD = {
    "nothing": (
        "no finding of {word} is hidden by this comment; the next one would be hidden unseen",
        "take {word} out of the comment",
    ),
    "unknown": (
        "this comment names {word}, which is no rule, so it hides nothing",
        "`tenant-audit rule` lists the rules; those of a pack of your own are known with --rules",
    ),
    "bare": (
        "this comment names no rule, so it hides nothing",
        "name the rule and say why: `tenant-audit: ignore[session-tenant] why`",
    ),
    "unclear": (
        "this comment speaks to tenant-audit and asks for nothing that it knows, so it hides nothing",
        "write `tenant-audit: ignore[session-tenant] why`, or `ignore-file[…]` for the whole file",
    ),
}


def check_suppressions(unused: Sequence[Unused]) -> Iterator[Finding]:
    for directive, problem, word in unused:
        message, mend = _TOLD[problem]
        yield RULE.at(directive.place, message.format(word=word)).mended(mend.format(word=word))
