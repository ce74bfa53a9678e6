"""Fuzz every target: ``python -m fuzz --minutes 60``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fuzz.targets import TARGETS

__all__ = ["main"]

_ROOT: Final = Path(__file__).parents[1]
_CORPUS: Final = _ROOT / "fuzz" / "corpus"
_FOUND: Final = _ROOT / ".fuzz"
"""What a run finds: ``TARGET/`` inputs that reach new code, ``TARGET-*`` what breaks it."""

_RUNS: Final = re.compile(r"Done (\d+) runs in (\d+) second")


def _fuzz(name: str, seconds: int) -> str | None:
    """Fuzz one target; return how many inputs it was given, None if one broke it."""
    found = _FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fuzz.one", name, found, _CORPUS / name),
            *(f"-artifact_prefix={_FOUND / name}-", f"-max_total_time={seconds}"),
            *("-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=0"),
        ],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=seconds + 120,
        check=False,
    )
    runs = _RUNS.search(done.stdout)
    if done.returncode or runs is None:
        print(done.stdout[-2000:])
        return None
    return f"{int(runs[1]):,} inputs in {runs[2]} s"


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; return 0 if nothing broke, 1 if something did, 3 where there is no atheris."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="over all targets together")
    parser.add_argument("--target", choices=TARGETS, action="append", help="by default all")
    given = parser.parse_args(argv)
    if importlib.util.find_spec("atheris") is None:
        print(
            "NOT FUZZED: atheris is not installed; it has wheels for x86-64 Linux with glibc."
            f" This is {sys.platform}, Python {sys.version.split()[0]}."
        )
        return 3
    names = given.target or list(TARGETS)
    workers = min(len(names), os.cpu_count() or 1)
    seconds = max(1, round(given.minutes * 60 * workers / len(names)))
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(_fuzz, names, [seconds] * len(names)))
    for name, result in zip(names, results, strict=True):
        print(f"{name}: {result or 'BROKEN, the input is in .fuzz/'}")
    return 1 if None in results else 0


if __name__ == "__main__":
    sys.exit(main())
