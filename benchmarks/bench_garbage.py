"""What a refusal costs: garbage of every kind and length, beside a good cursor of that length.

Whoever sends garbage must not be able to make a server work harder than an honest client does. The
log is off: a log line costs more than a refusal. What the numbers do not show: the request around
the cursor, and that a longer request, good or bad, costs more to receive.
"""

from __future__ import annotations

import argparse
import random
import string
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.harness import Measurement, Ratio, Report, best_times, show, without_log
from cursorkit import (
    Binding,
    CursorCodec,
    InvalidCursorError,
    Key,
    KeyRing,
    Opaque,
    SealedCodec,
    SignedCodec,
)

__all__ = ["garbage", "main", "run"]

_ALPHABET: Final = string.ascii_letters + string.digits + "-_"
_LENGTHS: Final = (64, 256, 1024, 4096, 65_536, 1024 * 1024)
_MAX: Final = 1024 * 1024
_BINDING: Final = Binding(
    "tools/list",
    audience="https://catalog.example/mcp",
    principal='["client","https://issuer.example","alice"]',
    protocol_version="2026-07-28",
)
_GOOD: Final = "a good cursor"


def _good(codec: CursorCodec, length: int) -> str:
    """Return a cursor of `length` characters, or of a few less."""
    # Header and tag take 21 bytes, the body's array, kind and expiry 3, the data's length up to 5.
    return codec.encode(Opaque(bytes(length * 3 // 4 - 29)), _BINDING)


def garbage(good: str, source: random.Random) -> dict[str, str]:
    """Return bad cursors as long as a good one, each refused by another check or at another place.

    The last but one letter of a good cursor is of its tag, or of its encrypted body.
    """
    length = len(good)
    letters = "".join(source.choices(_ALPHABET, k=length))
    other = "A" if good[-2] != "A" else "B"
    return {
        "the letter A": "A" * length,
        "random letters": letters,
        "random letters behind a good start": good[:8] + letters[8:],
        "a wrong tag": good[:-2] + other + good[-1],
        "another key": good[:2] + letters[2:6] + good[6:],
        "a blank in front": " " + good[1:],
        "a blank at the end": good[:-1] + " ",
        "padding at the end": good[:-1] + "=",
        "blanks": " " * length,
        "letters beyond ASCII": "é" * length,
        "one letter beyond ASCII at the end": good[:-1] + "é",
        "letters beyond the first plane": "\U0001f600" * length,
        "lone surrogates": "\ud800" * length,
        "a line end behind": good[:-1] + "\n",
        "nothing but padding": "=" * length,
    }


def _refused(codec: CursorCodec, cursor: str) -> Callable[[], None]:
    def call() -> None:
        try:
            codec.decode(cursor, _BINDING)
        except InvalidCursorError:
            return
        raise AssertionError("garbage was accepted")

    return call


def run(*, lengths: Sequence[int], rounds: int, seed: int) -> Report:
    """Time a decode of each kind at each length."""
    ring = KeyRing(Key(bytes(range(32))))
    report = Report(
        "A cursor refused, beside a good one of the same length",
        {"rounds": rounds, "seed": seed, "max_length": _MAX},
        ["cursorkit", "cryptography", "msgpack"],
    )
    for name, codec in (
        ("signed", SignedCodec(ring, max_length=_MAX)),
        ("sealed", SealedCodec(ring, max_length=_MAX)),
    ):
        for length in lengths:
            with without_log():
                _compare(report, name, codec, length, rounds=rounds, seed=seed)
    return report


def _compare(
    report: Report, name: str, codec: CursorCodec, length: int, *, rounds: int, seed: int
) -> None:
    good = _good(codec, length)
    source = random.Random(seed)  # noqa: S311  # garbage, no secret
    calls: dict[str, Callable[[], object]] = {_GOOD: lambda: codec.decode(good, _BINDING)}
    for kind, cursor in garbage(good, source).items():
        calls[kind] = _refused(codec, cursor)
    loops = max(1, 40_000 // length)
    best = best_times(calls, rounds=rounds, loops=loops, seed=seed)
    group = f"{name}, {length:,} characters"
    report.measurements.append(Measurement(group, _GOOD, best[_GOOD]))
    worst = max(best.keys() - {_GOOD}, key=best.__getitem__)
    report.measurements.append(Measurement(group, f"the dearest garbage: {worst}", best[worst]))
    for kind in best.keys() - {_GOOD, worst} if length == _MAX else ():
        report.measurements.append(Measurement(group, kind, best[kind]))
    report.ratios.append(Ratio(f"{group}: {worst} / {_GOOD}", best[worst] / best[_GOOD], 1.0))


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_garbage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="the best of these counts")
    parser.add_argument("--lengths", type=int, nargs="+", default=_LENGTHS, metavar="CHARACTERS")
    parser.add_argument("--seed", type=int, default=1, help="for the garbage, and for the order")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = parser.parse_args(argv)
    show([run(lengths=given.lengths, rounds=given.rounds, seed=given.seed)], as_json=given.json)


if __name__ == "__main__":
    main()
