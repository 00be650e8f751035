"""The drivers the audit knows, each described in one file."""

from __future__ import annotations

from functools import cache

from auditor.drivers import psycopg, psycopg2
from auditor.drivers.model import Act, Driver, Thing

__all__ = ["DRIVERS", "Act", "Driver", "Thing", "by_name", "made_by", "typed_as"]

DRIVERS: tuple[Driver, ...] = (psycopg.DRIVER, psycopg2.DRIVER)


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
