"""Does the time of a refusal tell how much of a tag was right? ``make timing``.

In the manner of dudect (Reparaz, Balasch, Verbauwhede, 2017): two classes of cursors, one whose
tag differs in its first byte, one whose tag differs in its last, in random order, each decode
timed, and Welch's t-test on the two classes, over all timings and over the fastest of them. A
comparison that stops at the first difference would be slower for the second class; one control has
such a comparison, and a run in which it passes proves nothing.

What a verdict does not show: differences below the one that is printed, other machines, and what a
network hides or adds.
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import math
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.harness import without_log
from cursorkit import (
    Binding,
    CursorCodec,
    InvalidCursorError,
    Key,
    KeyRing,
    Offset,
    SealedCodec,
    SignedCodec,
)
from cursorkit.codecs.base import TAG_BYTES

__all__ = [
    "BINDING",
    "EarlyExit",
    "Verdict",
    "judge",
    "main",
    "measure",
    "pools",
    "raw_of",
    "welch",
]

_THRESHOLD: Final = 10.0
"""The |t| from which dudect calls code definitely not constant-time; 4.5 is its first doubt."""

_CROPS: Final = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""The shares of the fastest timings that are tested, each on its own: noise is in the slow ones."""

_POOL: Final = 251
_BATCH: Final = 5000
BINDING: Final = Binding("tools/list", principal="alice")

Pools = tuple[Sequence[str], Sequence[str]]
Timings = tuple[Sequence[int], Sequence[int]]


class EarlyExit(SignedCodec):
    """The control: a codec whose comparison stops at the first byte that differs."""

    def _verify(self, key: Key, binding: Binding, protected: bytes) -> bytes:
        body = protected[:-TAG_BYTES]
        expected = self._protect(key, binding, body)
        for mine, theirs in zip(expected, protected, strict=True):
            if mine != theirs:
                raise InvalidCursorError("tag")
        return body


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one codec.

    Attributes:
        t: The largest |t| of all shares of the timings.
        difference: Nanoseconds between the medians of the classes.
        visible: The least nanoseconds that would have been called a leak in some share.
        median: Nanoseconds that a refusal takes.
    """

    name: str
    calls: int
    t: float
    difference: float
    visible: float
    median: float

    @property
    def leaks(self) -> bool:
        return self.t > _THRESHOLD

    def text(self) -> str:
        found = "a difference" if self.leaks else "no difference"
        return (
            f"{self.name}: {found}, |t| = {self.t:.1f} over {self.calls:,} calls of"
            f" {self.median / 1000:.2f} µs; {self.difference:+.1f} ns between the medians, and"
            f" {self.visible:.1f} ns would be seen"
        )


def raw_of(cursor: str) -> bytes:
    """Return a cursor's bytes."""
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def pools(codec: CursorCodec, *, tag_at: int, source: random.Random) -> Pools:
    """Return cursors whose tag differs in its first byte, and such whose tag differs in its last.

    Each is a text of its own, made in random order, so that neither class has better addresses.
    """
    found: tuple[list[str], list[str]] = ([], [])
    wanted = [(offset, last) for offset in range(1000, 1000 + _POOL) for last in (0, 1)]
    source.shuffle(wanted)
    for offset, last in wanted:
        raw = bytearray(raw_of(codec.encode(Offset(offset), BINDING)))
        at = (tag_at if tag_at >= 0 else len(raw) + tag_at) + last * (TAG_BYTES - 1)
        raw[at] ^= source.randrange(1, 256)
        found[last].append(base64.urlsafe_b64encode(raw).decode().rstrip("="))
    return found


def measure(
    codec: CursorCodec,
    *,
    tag_at: int,
    calls: int,
    seconds: float,
    seed: int,
    timer: Callable[[], int] = time.perf_counter_ns,
) -> Timings:
    """Return the nanoseconds of each refusal, by class; fewer than `calls` if `seconds` pass."""
    source = random.Random(seed)  # noqa: S311  # an order, and cursors to be refused; no secret
    timings = array("q"), array("q")
    ends = time.monotonic() + seconds
    collecting = gc.isenabled()
    gc.disable()
    try:
        for done in range(0, calls, _BATCH):
            # A text may be faster than another for where it lies: each batch has its own texts.
            cursors = pools(codec, tag_at=tag_at, source=source)
            _measure(codec, cursors, timings, min(_BATCH, calls - done), source, timer)
            if time.monotonic() > ends:
                break
    finally:
        if collecting:
            gc.enable()
    return timings


def _measure(
    codec: CursorCodec,
    cursors: Pools,
    timings: tuple[array[int], array[int]],
    calls: int,
    source: random.Random,
    timer: Callable[[], int],
) -> None:
    draw, decode = source.random, codec.decode
    for _ in range(calls):
        drawn = int(draw() * 2 * _POOL)
        kind = drawn % 2
        cursor = cursors[kind][drawn // 2]
        begun = timer()
        try:
            decode(cursor, BINDING)
        except InvalidCursorError:
            timings[kind].append(timer() - begun)
        else:
            raise AssertionError("a wrong tag was accepted")


def welch(left: Sequence[int], right: Sequence[int]) -> tuple[float, float]:
    """Return the difference of the means, and the standard error of it; t is their quotient."""
    means = statistics.fmean(left), statistics.fmean(right)
    parts = [
        sum((each - mean) ** 2 for each in sample) / (len(sample) - 1) / len(sample)
        for sample, mean in zip((left, right), means, strict=True)
    ]
    return means[1] - means[0], math.sqrt(sum(parts))


def judge(name: str, timings: Timings) -> Verdict:
    """Return the verdict on the timings of one codec."""
    every = sorted([*timings[0], *timings[1]])
    largest, visible = 0.0, math.inf
    for share in _CROPS:
        limit = every[min(len(every) - 1, int(share * len(every)))]
        kept = [[each for each in sample if each <= limit] for sample in timings]
        if min(map(len, kept)) < 2:
            continue  # the other class is slower altogether, which the whole shows
        difference, error = welch(kept[0], kept[1])
        visible = min(visible, _THRESHOLD * error)
        if difference:
            largest = max(largest, abs(difference) / error if error else math.inf)
    medians = [statistics.median(sample) for sample in timings]
    return Verdict(
        name, len(every), largest, medians[1] - medians[0], visible, every[len(every) // 2]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run it from the command line; return 0 if no codec leaks and the control does, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timing", description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000, help="of each codec")
    parser.add_argument("--seconds", type=float, default=120, help="the most for each codec")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON in place of text")
    given = parser.parse_args(argv)
    ring = KeyRing(Key(bytes(range(32))))
    # Of a signed cursor the tag comes last; of a sealed one it follows the header.
    contestants: list[tuple[str, CursorCodec, int, int]] = [
        ("control, a comparison that stops early", EarlyExit(ring), -16, given.calls // 10),
        ("signed", SignedCodec(ring), -16, given.calls),
        ("sealed", SealedCodec(ring), 5, given.calls),
    ]
    verdicts: list[Verdict] = []
    for name, codec, tag_at, calls in contestants:
        with without_log():
            timings = measure(
                codec, tag_at=tag_at, calls=calls, seconds=given.seconds, seed=given.seed
            )
        verdicts.append(judge(name, timings))
        if not given.json:
            print(verdicts[-1].text(), flush=True)
    control, *codecs = verdicts
    passed = control.leaks and not any(verdict.leaks for verdict in codecs)
    if given.json:
        found = [{**asdict(verdict), "leaks": verdict.leaks} for verdict in verdicts]
        print(json.dumps({"passed": passed, "threshold": _THRESHOLD, "verdicts": found}))
    elif not control.leaks:
        print("The control was not found out: this run proves nothing.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
