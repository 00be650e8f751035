"""Version specifiers of requirements, and poetry's: below what every version lies that they allow.

Facts: the version specifiers of the packaging user guide, and poetry's page on dependency specification.
"""

from __future__ import annotations

import re

_PART = re.compile(r"(<=?|~=|={2,3}|\^|~)\s*v?(\d+(?:\.\d+)*)(\.\*)?")


def upper(specifiers: str) -> tuple[int, ...]:
    """The lowest version that lies above all that are allowed; empty where there is no limit.

    `<2`, `~=1.4`, `==1.4.*` and `^1.4` give (2,), (2,), (1, 5) and (2,); of several the lowest counts.
    """
    if "|" in specifiers:  # one or the other, in poetry's words
        return ()
    found = [_above(part[1], _numbers(part[2]), bool(part[3])) for part in _PART.finditer(specifiers)]
    return min((one for one in found if one), default=())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _above(sign: str, numbers: tuple[int, ...], any_after: bool) -> tuple[int, ...]:
    if sign == "<":
        return numbers
    if sign == "<=" or (sign.startswith("==") and not any_after):
        return (*numbers, 1)
    if sign.startswith("=="):
        return _next(numbers)
    if sign == "~=":
        return _next(numbers[:-1]) if len(numbers) > 1 else ()
    if sign == "~":
        return _next(numbers[:2])
    # ^ leaves the first number that is not 0 as it is.
    kept = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
    return _next(numbers[: kept + 1])


def _next(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers[:-1], numbers[-1] + 1)
