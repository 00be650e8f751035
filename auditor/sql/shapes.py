"""Where sqlglot keeps what: small questions about the shape of its trees, the same for all its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from auditor.sql.dialect import span_of
from auditor.sql.nodes import function_name, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.sql.meaning import Span


def with_of(node: Any) -> Any:
    return node.args.get("with_") or node.args.get("with")


def from_of(node: Any) -> Any:
    return node.args.get("from_") or node.args.get("from")


def cte_names(node: Any) -> list[str]:
    with_ = with_of(node)
    return [text_of(cte.args["alias"]) for cte in with_.expressions] if with_ is not None else []


def inserted_columns(node: Any) -> list[Any]:
    """The columns that INSERT INTO table [AS alias] (…) names; older versions give them to the alias."""
    if isinstance(node, exp.Schema):
        return list(node.expressions)
    alias = node.args.get("alias") if isinstance(node, exp.Table) else None
    return list(alias.args.get("columns") or ()) if alias is not None else []


def assigned_column(node: Any) -> str:
    """The column that SET names: of `column.field` and `column[1]` the column."""
    while isinstance(node, (exp.Bracket, exp.Paren, exp.Dot)):
        node = node.this
    if isinstance(node, exp.Column):
        return next(
            (text_of(part) for part in reversed(list(node.args.values())) if isinstance(part, exp.Identifier)), ""
        )
    return text_of(node)


def flat(values: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat.extend(value if isinstance(value, list) else [value])
    return [one for one in flat if isinstance(one, exp.Expression)]


def projections(node: exp.Expression) -> list[exp.Expression]:
    """What the first branch of a query gives, column by column."""
    while isinstance(node, (exp.SetOperation, exp.Subquery)):
        node = node.this
    return list(node.expressions) if isinstance(node, exp.Select) else []


def is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def role_of(node: exp.Expression) -> str:
    """How a subquery takes part in the expression around it."""
    above = node.parent
    while isinstance(above, (exp.Subquery, exp.Paren)):
        above = above.parent
    if isinstance(above, (exp.In, exp.Any, exp.All)):
        return "in"
    if isinstance(above, exp.Exists):
        return "exists"
    if isinstance(above, exp.Array) or (isinstance(above, exp.Anonymous) and function_name(above) == "array"):
        return "array"
    return "scalar"


def schema_of(node: exp.Expression) -> str:
    """The schema before a function's name: schema.function(…) is a Dot whose right side is the call."""
    above = node.parent
    if not isinstance(above, exp.Dot) or above.args.get("expression") is not node:
        return ""
    before = above.this
    return text_of(before.args.get("expression") if isinstance(before, exp.Dot) else before)


def span_with_schema(node: exp.Expression) -> Span:
    above = node.parent
    qualified = isinstance(above, exp.Dot) and above.args.get("expression") is node
    return span_of(above) if qualified and above is not None else span_of(node)
