"""The drivers the audit knows, each described in one file."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from auditor.drivers import (
    aiopg,
    asyncpg,
    databases,
    django,
    peewee,
    pg8000,
    piccolo,
    psycopg,
    psycopg2,
    sqlalchemy,
    tortoise,
)
from auditor.drivers.model import Act, Driver, Thing

if TYPE_CHECKING:
    from collections.abc import Set

__all__ = [
    "DRIVERS",
    "Act",
    "Driver",
    "Thing",
    "by_name",
    "function",
    "held_as",
    "holding",
    "imported",
    "made_by",
    "spoken",
    "typed_as",
]

DRIVERS: tuple[Driver, ...] = (
    psycopg.DRIVER,
    psycopg2.DRIVER,
    asyncpg.DRIVER,
    django.DRIVER,
    sqlalchemy.DRIVER,
    # Of two that share a package the narrower stands first.
    pg8000.NATIVE,
    pg8000.DRIVER,
    peewee.DRIVER,
    piccolo.DRIVER,
    aiopg.DRIVER,
    databases.DRIVER,
    tortoise.DRIVER,
)


@cache
def by_name(name: str) -> Driver | None:
    """The driver of that name."""
    return next((driver for driver in DRIVERS if driver.name == name), None)


@cache
def made_by(callee: str) -> tuple[Driver, Thing] | None:
    """What a call of the library object `callee`, a dotted name, makes."""
    return next(((driver, driver.makes[callee]) for driver in DRIVERS if callee in driver.makes), None)


@cache
def typed_as(name: str) -> tuple[Driver, Thing] | None:
    """What a value annotated with the library class `name`, a dotted name, is."""
    return next(((driver, driver.types[name]) for driver in DRIVERS if name in driver.types), None)


@cache
def held_as(name: str) -> tuple[Driver, Thing] | None:
    """What the library object `name`, a dotted name, is of the connections that a driver keeps for the process."""
    return next(((driver, driver.held[name]) for driver in DRIVERS if name in driver.held), None)


@cache
def function(name: str) -> tuple[Driver, Act] | None:
    """What the library function `name`, a dotted name, does to a connection that its driver keeps."""
    return next(((driver, driver.functions[name]) for driver in DRIVERS if name in driver.functions), None)


@cache
def holding(name: str) -> Driver | None:
    """The driver in whose packages something of that dotted name is."""
    return next((one for one in DRIVERS if any(_is_below(name, package) for package in one.packages)), None)


@cache
def imported(loads: str, attribute: str | None) -> Driver | None:
    """The driver whose connections a module works with that imports this: `from loads import attribute`."""
    driver = holding(loads) or holding(f"{loads}.{attribute}")
    if driver is None or not driver.imports:
        return driver
    name = loads if attribute is None else f"{loads}.{attribute}"
    return driver if name in driver.imports or attribute == "*" else None


def spoken(names: Set[str]) -> Driver | None:
    """The driver that code with these names speaks to, though it imports none."""
    return next((driver for driver in DRIVERS if any(told <= names for told in driver.spoken)), None)


def _is_below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
