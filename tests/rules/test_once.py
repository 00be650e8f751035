"""Once a fault, one finding: what a rule yields to others, and what becomes of the places that it would have named."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from auditor.audit import audit
from auditor.findings import Confidence, Finding, Place
from auditor.packs import LoadedRule, load_packs, own_pack
from auditor.rule import Rule, Severity

if TYPE_CHECKING:
    from auditor.timeline import Timeline

RULES = load_packs([own_pack()])
TELLING = Rule("ZZ001", "telling", Severity.ERROR)
YIELDING = Rule("ZZ002", "yielding", Severity.WARNING, yields_to=("ZZ001",))


class _Program:
    @staticmethod
    def symbol_at(_place: Place) -> str:
        return ""

    @staticmethod
    def is_for_another_database(_place: Place) -> bool:
        return False


class _Timeline:
    program = _Program()

    def with_calls(self, finding: Finding) -> Finding:
        return finding


def at(line: int) -> Place:
    return Place("a.py", line, 1, line, 9)


def found(*findings: Finding) -> list[Finding]:
    loaded = [
        LoadedRule(rule, lambda _, rule=rule: [one for one in findings if one.code == rule.code], None, "", "")  # type: ignore[misc]
        for rule in (TELLING, YIELDING)
    ]
    return audit(cast("Timeline", _Timeline()), loaded)


def test_the_more_telling_one_speaks_and_names_the_other_place() -> None:
    (left,) = found(TELLING.at(at(1), "this"), YIELDING.at(at(5), "that").see(at(1), "here"))
    assert (left.code, [(see.place, see.message) for see in left.related]) == ("ZZ001", [(at(5), "that")])


def test_a_place_that_is_named_already_is_not_named_twice() -> None:
    (left,) = found(TELLING.at(at(1), "this").see(at(5), "there"), YIELDING.at(at(5), "that"))
    assert [see.message for see in left.related] == ["there"]


def test_faults_that_share_no_place_are_two() -> None:
    assert len(found(TELLING.at(at(1), "this"), YIELDING.at(at(5), "that").see(at(6), "here"))) == 2


def test_what_may_be_hidden_for_its_doubts_hides_nothing_surer() -> None:
    doubtful = TELLING.at(at(1), "this").sure(Confidence.LOW)
    assert len(found(doubtful, YIELDING.at(at(1), "that"))) == 2


def test_rules_yield_to_rules_that_are_there_and_never_in_a_circle() -> None:
    yields = {loaded.rule.code: loaded.rule.yields_to for loaded in RULES}
    assert {code for codes in yields.values() for code in codes} <= yields.keys()
    for code, others in yields.items():
        above, seen = list(others), set()
        while above:
            other = above.pop()
            assert other != code
            if other not in seen:
                seen.add(other)
                above.extend(yields[other])


def test_of_one_fault_at_several_places_the_surest_that_names_most_of_them_speaks() -> None:
    outer = TELLING.at(at(5), "this").see(at(3), "through this call").of_fault("begun", also="here, too")
    inner = TELLING.at(at(3), "this").of_fault("begun", also="here, too")
    other = TELLING.at(at(9), "this").of_fault("begun", also="here, too")
    (left,) = found(inner, outer, other)
    assert (left.place, [(see.place, see.message) for see in left.related]) == (
        at(5),
        [(at(3), "through this call"), (at(9), "here, too")],
    )


def test_a_surer_one_speaks_for_those_that_name_more() -> None:
    outer = TELLING.at(at(5), "this").see(at(3), "through this call").of_fault("begun", also="here, too")
    inner = TELLING.at(at(3), "this").of_fault("begun", also="here, too")
    (left,) = found(inner, outer.sure(Confidence.MEDIUM))
    assert (left.place, left.confidence) == (at(3), Confidence.HIGH)


def test_faults_of_other_rules_or_of_which_a_part_is_not_known_are_apart() -> None:
    unknown = [TELLING.at(at(line), "this").of_fault("begun", None, also="here, too") for line in (1, 2)]
    assert len(found(*unknown)) == 2
    assert len(found(*(rule.at(at(1), "this").of_fault("a", also="") for rule in (TELLING, YIELDING)))) == 1
    assert len(found(TELLING.at(at(1), "this").of_fault(1, also=""), TELLING.at(at(2), "it").of_fault(2, also=""))) == 2


def test_one_place_met_on_two_ways_makes_one_fault_of_both() -> None:
    def met(line: int, way: str) -> Finding:
        return TELLING.at(at(line), "this").of_fault(way, also="here, too")

    (left,) = found(met(1, "a"), met(2, "a"), met(2, "b"), met(3, "b"))
    assert [see.place for see in left.related] == [at(2), at(3)]
