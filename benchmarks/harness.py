"""What the benchmarks share: fair timing, goals, the stamp, and the report as table or JSON."""

from __future__ import annotations

import json
import logging
import os
import platform
import random
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from timeit import Timer
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.table import Table

__all__ = ["Measurement", "Ratio", "Report", "best_times", "in_turns", "show", "without_log"]

T = TypeVar("T")

_MICRO: Final = 1e-6
_MILLI: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure: seconds, or whatever its unit says."""

    group: str
    name: str
    value: float
    unit: str = "s"

    def text(self) -> str:
        if self.unit != "s":
            return f"{self.value:,.0f} {self.unit}"
        if self.value < _MILLI:
            return f"{self.value / _MICRO:,.2f} µs"
        return f"{self.value / _MILLI:,.1f} ms"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure over another of the same run; `goal` is the most it should be, if there is one."""

    name: str
    value: float
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal


@dataclass(slots=True)
class Report:
    """What a benchmark found, and under which settings."""

    name: str
    settings: Mapping[str, Any]
    packages: Sequence[str]
    measurements: list[Measurement] = field(default_factory=list[Measurement])
    ratios: list[Ratio] = field(default_factory=list[Ratio])

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "settings": dict(self.settings),
            "stamp": _stamp(self.packages),
            "measurements": [asdict(each) for each in self.measurements],
            "ratios": [{**asdict(each), "met": each.met} for each in self.ratios],
        }


def in_turns(contestants: Iterable[T], *, rounds: int, seed: int) -> Iterator[T]:
    """Yield every contestant once a round, in an order drawn anew.

    What disturbs the machine for a while hits all of them, and the best round of each is the one
    that it hit least.
    """
    order = list(contestants)
    shuffle = random.Random(seed).shuffle  # noqa: S311  # an order, no secret
    for _ in range(rounds):
        shuffle(order)
        yield from order


def best_times(
    contestants: Mapping[T, Callable[[], object]], *, rounds: int, loops: int, seed: int
) -> dict[T, float]:
    """Return each contestant's best time for one call in seconds; a round makes `loops` calls."""
    timers = {name: Timer(call) for name, call in contestants.items()}
    best = dict.fromkeys(contestants, float("inf"))
    for name in in_turns(contestants, rounds=rounds, seed=seed):
        best[name] = min(best[name], timers[name].timeit(loops) / loops)
    return best


def show(reports: Sequence[Report], *, as_json: bool) -> None:
    """Print the reports: tables for people, else one JSON object, or an array of several."""
    if as_json:
        found = [report.as_dict() for report in reports]
        print(json.dumps(found[0] if len(found) == 1 else found))
        return
    # A pipe has no width of its own, and 80 columns would break the names.
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    for report in reports:
        _print(report, console)


def _print(report: Report, console: Console) -> None:
    stamp = _stamp(report.packages)
    packages = ", ".join(f"{name} {version}" for name, version in stamp["packages"].items())
    console.print(f"\n[bold]{report.name}[/]")
    console.print(f"{stamp['python']} on {stamp['cpu']}, {stamp['cores']} cores, {stamp['system']}")
    console.print(packages)
    console.print(", ".join(f"{name} {value}" for name, value in report.settings.items()))
    measured = Table("measured", "", "", box=None, padding=(0, 3, 0, 0))
    measured.columns[-1].justify = "right"
    group = ""
    for each in report.measurements:
        measured.add_row("" if each.group == group else each.group, each.name, each.text())
        group = each.group
    ratios = Table("ratio", "is", "goal", "", box=None, padding=(0, 3, 0, 0))
    for column in ratios.columns[1:3]:
        column.justify = "right"
    for ratio in report.ratios:
        goal = "" if ratio.goal is None else f"≤ {ratio.goal:.2f}"
        verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[ratio.met]
        ratios.add_row(ratio.name, f"{ratio.value:.2f}", goal, verdict)
    console.print()
    console.print(measured)
    console.print()
    console.print(ratios)


def _stamp(packages: Sequence[str]) -> dict[str, Any]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: metadata.version(name) for name in packages},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


@contextmanager
def without_log() -> Generator[None]:
    """Turn the package's log off, and on again as it was."""
    log = logging.getLogger("cursorkit")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
