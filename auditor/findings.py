"""What the audit says: a finding, the places it names, how bad and how sure."""

from __future__ import annotations

import enum
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from auditor.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Ordered(enum.Enum):
    """An enumeration whose members compare by the order they are written in, the weakest first."""

    @property
    def rank(self) -> int:
        return list(type(self)).index(self)

    def __lt__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.rank < other.rank

    def __le__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.rank <= other.rank


class Severity(_Ordered):
    """What a fault costs when it bites."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Confidence(_Ordered):
    """How much of the chain that leads to a finding was proven from source."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Applicability(enum.Enum):
    """Whether an edit keeps the meaning of what it does not mend."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class Place(NamedTuple):
    """A stretch of a file. Lines and columns count from 1, columns in characters; the end is exclusive."""

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    def holds(self, other: Place) -> bool:
        """Whether another place lies in this one."""
        start, end = (self.line, self.column), (self.end_line or self.line, self.end_column)
        return self.path == other.path and start <= (other.line, other.column) < end


class Related(NamedTuple):
    """A place that explains a finding: where the transaction begins, where it ends, who comes next."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Fix:
    """How a finding can be mended, and how safely."""

    applicability: Applicability
    description: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place.

    `message` is one sentence about what happens at run time. `related` are the places that lead to it, in the order of
    events. `symbol` is the dotted name of the function or SQL object the place stands in, empty at the top of a file.
    """

    code: str
    name: str
    severity: Severity
    message: str
    place: Place
    confidence: Confidence = Confidence.HIGH
    related: tuple[Related, ...] = ()
    mend: str = ""
    symbol: str = ""
    fix: Fix | None = None
    #: What stands on the line, without its indentation: it follows a finding when lines move.
    context: str = field(default="", compare=False)
    #: Findings of one rule that share one of these are one fault, met at several places.
    faults: frozenset[tuple[object, ...]] = field(default=frozenset(), compare=False)
    #: What is said of this place where another of them speaks.
    also: str = field(default="", compare=False)

    def see(self, place: Place, message: str) -> Finding:
        """The same finding with one more related place; a place named twice is kept once."""
        if any(known.place == place and known.message == message for known in self.related):
            return self
        return replace(self, related=(*self.related, Related(place, message)))

    def see_all(self, places: Iterable[Related]) -> Finding:
        """The same finding with more related places, in their order."""
        finding = self
        for place, message in places:
            finding = finding.see(place, message)
        return finding

    def see_call(self, call: Place, message: str) -> Finding:
        """The same finding with the call that makes it happen, unless that is where it stands."""
        return self if call.holds(self.place) else self.see(call, message)

    def sure(self, confidence: Confidence) -> Finding:
        """The same finding, at most as sure as `confidence`."""
        return replace(self, confidence=min(self.confidence, confidence))

    def as_severe(self, severity: Severity) -> Finding:
        """The same finding, as severe as this case of it is."""
        return replace(self, severity=severity)

    def mended(self, mend: str) -> Finding:
        """The same finding, with what to do about it here."""
        return replace(self, mend=mend)

    def of_fault(self, *parts: object, also: str) -> Finding:
        """The same finding as one of those of its rule that are one fault: one transaction, one claim, one call.

        `parts` tell that fault from others; where one of them is not known, the finding is a fault of its own.
        """
        return self if None in parts else replace(self, faults=self.faults | {parts}, also=also)

    def concerns(self, other: Finding) -> bool:
        """Whether two findings speak of one place: one of them names the line that the other stands on."""
        return other.named_in(self) or self.named_in(other)

    def named_in(self, other: Finding) -> bool:
        """Whether the line that a finding stands on is one that another names."""
        line = (self.place.path, self.place.line)
        return any((place.path, place.line) == line for place in (other.place, *(see.place for see in other.related)))

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """The order of a report: by file, place and code, whatever order the rules ran in."""
        return (self.place.path, self.place.line, self.place.column, self.code, self.message)


def fingerprints(findings: list[Finding]) -> list[str]:
    """A stable name for each finding, in the order given: it survives lines that move and code that moves around it.

    Two equal faults on equal lines of one function are told apart by their order.
    """
    import hashlib  # loads OpenSSL, and no other format asks for the names

    seen: dict[str, int] = {}
    names = []
    for finding in findings:
        key = "\0".join((finding.code, finding.place.path, finding.symbol, finding.context))
        turn = seen[key] = seen.get(key, 0) + 1
        names.append(hashlib.sha256(f"{key}\0{turn}".encode("utf-8", "surrogatepass")).hexdigest()[:20])
    return names
