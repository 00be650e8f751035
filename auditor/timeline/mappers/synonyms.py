"""Attributes of a model that stand for another one: `status = synonym("_status")`, or a hybrid that returns it."""

from __future__ import annotations

from auditor.program.tree import last_name, literal
from auditor.python import nodes


def stands_for(member: nodes.Node | None) -> str:
    """The attribute that a member of a model is another name of; empty where it is none."""
    if isinstance(member, nodes.Assign):
        return _of_synonym(member.value)
    if not isinstance(member, nodes.Function) or len(member.body) != 1 or not isinstance(member.body[0], nodes.Return):
        return ""
    decorators = {last_name(one) for one in member.decorators}
    value = member.body[0].value
    if decorators & {"declared_attr", "directive"}:
        return _of_synonym(value)
    own = member.parameters[0].name if member.parameters else ""
    if "hybrid_property" in decorators and isinstance(value, nodes.Attribute) and isinstance(value.value, nodes.Name):
        return value.name if value.value.id == own else ""
    return ""


def _of_synonym(made: nodes.Expression | None) -> str:
    if not isinstance(made, nodes.Call) or last_name(made.function) != "synonym" or not made.arguments:
        return ""
    return literal(made.arguments[0]) or ""
