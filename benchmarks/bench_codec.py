"""What a cursor costs: decoded, and the next one encoded, as serving a page does.

cursorkit's signed cursors stand beside the unsigned ones of FastMCP, which anyone can forge, and
beside itsdangerous' timed serializer, which signs but binds to nothing. What the numbers do not
show: the rest of a page, which takes far longer (`bench_pages`); a machine under load; threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

from fastmcp.utilities.pagination import CursorState
from itsdangerous import URLSafeTimedSerializer

from benchmarks.harness import Measurement, Ratio, Report, best_times, show
from cursorkit import (
    Binding,
    CursorCodec,
    ExpiringCodec,
    Key,
    KeyRing,
    Offset,
    OffsetCodec,
    SignedCodec,
    SnapshotOffset,
)

__all__ = ["main", "run"]

_SECRET: Final = bytes(range(32))
_PAGE: Final = 50
_TTL: Final = 600

_ONE: Final = "one binding"
_NEW: Final = "a new binding each time"
_OTHERS: Final = "others"


def _binding(principal: str = '["client","https://issuer.example","alice"]') -> Binding:
    return Binding(
        "tools/list",
        audience="https://catalog.example/mcp",
        principal=principal,
        protocol_version="2026-07-28",
    )


def _offsets(codec: CursorCodec, binding: Callable[[], Binding]) -> Callable[[], object]:
    cursor = codec.encode(Offset(_PAGE), binding())

    def turn() -> str:
        bound = binding()
        decoded = codec.decode(cursor, bound)
        following = Offset(decoded.expect(Offset).offset + _PAGE)
        return codec.encode(following, bound, expires_at=decoded.expires_at)

    return turn


def _snapshots(codec: CursorCodec, bound: Binding) -> Callable[[], object]:
    cursor = codec.encode(SnapshotOffset(_SECRET, _PAGE, _PAGE), bound)

    def turn() -> str:
        decoded = codec.decode(cursor, bound)
        at = decoded.expect(SnapshotOffset)
        following = SnapshotOffset(at.root, at.offset + _PAGE, at.page_size)
        return codec.encode(following, bound, expires_at=decoded.expires_at)

    return turn


def _fastmcp() -> Callable[[], object]:
    cursor = CursorState(_PAGE).encode()
    return lambda: CursorState(CursorState.decode(cursor).offset + _PAGE).encode()


def _itsdangerous() -> Callable[[], object]:
    serializer = URLSafeTimedSerializer(_SECRET)
    cursor = serializer.dumps({"o": _PAGE})

    def turn() -> str | bytes:
        # Its timestamps have no types.
        state: Any = serializer.loads(cursor, max_age=_TTL)
        return serializer.dumps({"o": state["o"] + _PAGE})

    return turn


def run(*, rounds: int, loops: int, seed: int) -> Report:
    """Time a decode and an encode of each kind."""
    ring = KeyRing(Key(_SECRET))
    signed = SignedCodec(ring)
    expiring = ExpiringCodec(signed, ttl=_TTL)
    one = _binding()
    numbers = count()
    contestants: dict[tuple[str, str], Callable[[], object]] = {
        (_ONE, "OffsetCodec, unsigned"): _offsets(OffsetCodec(), lambda: one),
        (_ONE, "signed"): _offsets(signed, lambda: one),
        (_ONE, "signed in expiring"): _offsets(expiring, lambda: one),
        (_ONE, "signed in expiring, a place in a snapshot"): _snapshots(expiring, one),
        (_NEW, "signed"): _offsets(signed, _binding),
        (_NEW, "signed in expiring"): _offsets(expiring, _binding),
        ("a principal never seen", "signed, encoded only"): lambda: signed.encode(
            Offset(_PAGE), _binding(str(next(numbers)))
        ),
        (_OTHERS, "FastMCP's CursorState, unsigned"): _fastmcp(),
        (_OTHERS, "itsdangerous' URLSafeTimedSerializer"): _itsdangerous(),
    }
    best = best_times(contestants, rounds=rounds, loops=loops, seed=seed)
    report = Report(
        "A cursor: decode, then encode",
        {"rounds": rounds, "loops": loops, "seed": seed},
        ["cursorkit", "cryptography", "msgpack", "fastmcp", "itsdangerous"],
        [Measurement(group, name, seconds) for (group, name), seconds in best.items()],
    )
    rivals = {
        "FastMCP, unsigned": best[_OTHERS, "FastMCP's CursorState, unsigned"],
        "itsdangerous, timed": best[_OTHERS, "itsdangerous' URLSafeTimedSerializer"],
    }
    goals = {(_ONE, "FastMCP, unsigned"): 1.5, (_ONE, "itsdangerous, timed"): 1 / 4}
    goals |= {(_NEW, "FastMCP, unsigned"): 2.0, (_NEW, "itsdangerous, timed"): 1 / 3}
    for (group, rival), goal in goals.items():
        for name in ("signed", "signed in expiring"):
            value = best[group, name] / rivals[rival]
            report.ratios.append(Ratio(f"{name}, {group} / {rival}", value, goal))
    return report


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_codec", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="the best of these counts")
    parser.add_argument("--loops", type=int, default=100, help="calls timed together")
    parser.add_argument("--seed", type=int, default=1, help="for the order within a round")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = parser.parse_args(argv)
    show([run(rounds=given.rounds, loops=given.loops, seed=given.seed)], as_json=given.json)


if __name__ == "__main__":
    main()
