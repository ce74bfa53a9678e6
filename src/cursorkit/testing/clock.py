"""A clock for tests, so that no test sleeps."""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """A clock that moves only when it is told to.

    Give it wherever cursorkit takes a `clock`.

    Args:
        now: The Unix seconds that it shows first.
        tick: Seconds by which each reading moves it. With 0 it stands still; otherwise code that
            reads it twice sees two times.

    Attributes:
        now: The Unix seconds that it shows next. May be set, also to NaN.
        tick: As given.
        readings: How often it was read.
    """

    now: float
    tick: float
    readings: int

    def __init__(self, now: float = 1_800_000_000.0, *, tick: float = 0.0) -> None:
        self.now = now
        self.tick = tick
        self.readings = 0

    def __call__(self) -> float:
        """Return the time, in Unix seconds."""
        now = self.now
        self.now += self.tick
        self.readings += 1
        return now

    def advance(self, seconds: float) -> None:
        """Move the clock, backwards if `seconds` is negative."""
        self.now += seconds
