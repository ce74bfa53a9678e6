"""Checks of settings: each says what was given, what is allowed, and what to do."""

from __future__ import annotations

import math
from typing import Final

from cursorkit.errors import ConfigurationError

__all__ = ["MAX_TTL", "check_int", "check_seconds"]

MAX_TTL: Final = 10 * 365 * 86_400
"""The longest life of a cursor, in seconds: ten years."""


def check_int(name: str, value: object, low: int, high: int) -> int:
    """Return `value` if it is an int from `low` to `high`.

    Raises:
        ConfigurationError: If it is anything else; True and 1.0 are not ints here.
    """
    if type(value) is not int or not low <= value <= high:
        raise ConfigurationError(f"{name} is {_shown(value)}; give an int from {low} to {high}")
    return value


def check_seconds(name: str, value: object, high: float) -> float:
    """Return `value` if it is a number of seconds from 0.001 to `high`.

    Raises:
        ConfigurationError: If it is anything else: zero, NaN, infinite, a bool or a timedelta too.
    """
    number = value if type(value) is int or type(value) is float else math.nan
    if not 0.001 <= number <= high:
        raise ConfigurationError(
            f"{name} is {_shown(value)}; give seconds, a number from 0.001 to {high:.0f}"
        )
    return number


def _shown(value: object) -> str:
    # Only numbers are shown: anything else may be a secret that went to the wrong argument.
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20):
        return repr(value)
    return f"of type {type(value).__name__}"
