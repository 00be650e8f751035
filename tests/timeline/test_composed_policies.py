"""Policies whose text a program puts together, and gives to whoever sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

#: Ways to write one policy, in a function or around it; `READ` stands for what reads the setting.
WAYS = {
    "a variable": """
        def policy(table, setting):
            using = f"tenant_id = READ"
            return f"CREATE POLICY own ON {table} USING ({using.strip()})"
        """,
    "one of two variables": """
        def policy(table, setting, everyone):
            if everyone:
                using = "true"
            else:
                using = f"tenant_id = READ"
            return f"CREATE POLICY own ON {table} USING ({using})"
        """,
    "a choice": """
        def policy(table, setting, strict=True):
            using = f"tenant_id = READ" if strict else "true"
            return f"CREATE POLICY own ON {table} USING ({using})"
        """,
    "an attribute": """
        class Rules:
            def __init__(self, setting):
                self.using = f"tenant_id = READ"

            def policy(self, table):
                return f"CREATE POLICY own ON {table} USING ({self.using})"
        """,
    "a helper": """
        def _using(setting):
            return f"tenant_id = READ"

        def policy(table, setting):
            return f"CREATE POLICY own ON {table} USING ({_using(setting)})"
        """,
    "a parameter": """
        def _policy(table, using):
            return f"CREATE POLICY own ON {table} USING ({using})"

        def policies(tables, setting):
            return [_policy(table, f"tenant_id = READ") for table in tables]
        """,
    "a template": """
        POLICY = "CREATE POLICY own ON {table} USING (tenant_id = READ)"
        """,
    "a template that is filled": """
        POLICY = "CREATE POLICY own ON {} USING ({})"
        USING = "tenant_id = READ"

        def policy(table, setting):
            return POLICY.format(table, USING.format(setting=setting))
        """,
    "a sum": """
        def policy(table, setting):
            return "CREATE POLICY own ON " + table + f" USING (tenant_id = READ)"
        """,
    "lines": r"""
        def policy(table, setting):
            return "\n".join([f"CREATE POLICY own ON {table}", f"USING (tenant_id = READ)"])
        """,
    "steps": """
        def policy(table, setting):
            sql = f"CREATE POLICY own ON {table}"
            sql += f" USING (tenant_id = READ)"
            return sql
        """,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_policy_that_is_only_written_raises_where_its_setting_is_missing(way: str, tmp_path: Path) -> None:
    bad = way.replace("READ", "current_setting('{setting}')::uuid")
    line = next(number for number, text in enumerate(bad.splitlines(), 1) if "current_setting" in text)
    assert codes(tmp_path, bad) == [f"TA602 at worker.py:{line}"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_one_that_hides_rows_is_left_alone(way: str, tmp_path: Path) -> None:
    assert codes(tmp_path, way.replace("READ", "nullif(current_setting('{setting}', true), '')::uuid")) == []


def test_placeholders_of_percent_are_holes(tmp_path: Path) -> None:
    bad = """
        POLICY = "CREATE POLICY own ON %(table)s USING (tenant_id = current_setting('%(setting)s')::uuid)"
        OTHER = "CREATE POLICY own ON %s USING (tenant_id = current_setting('%s')::uuid)"

        def other(table, setting):
            return OTHER % (table, setting)
        """
    assert codes(tmp_path, bad) == ["TA602 at worker.py:2", "TA602 at worker.py:3"]


def test_what_is_not_told_is_left_alone(tmp_path: Path) -> None:
    source = """
        def policy(table, using, setting, flag):
            yield f"CREATE POLICY own ON {table} USING ({using})"
            yield f"CREATE POLICY two ON {table} USING (tenant_id::text = current_setting('{setting}', {flag}))"
            raise ValueError(f"CREATE POLICY own ON t USING (id = current_setting('{setting}')::uuid)")
        """
    assert codes(tmp_path, source) == []
