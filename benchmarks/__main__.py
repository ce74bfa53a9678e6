"""``python -m benchmarks`` runs every benchmark with short settings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks import bench_codec, bench_hosts, bench_pages, bench_store
from benchmarks.harness import show

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = parser.parse_args(argv)
    reports = [
        bench_codec.run(rounds=60, loops=100, seed=given.seed),
        bench_pages.run(
            lengths=[1000, 10_000, 100_000], rounds=10, principals=100, seed=given.seed
        ),
        bench_hosts.run(tools=8000, rounds=2, sample=4, seed=given.seed),
        bench_store.run(bench_store.Settings(rounds=10, principals=100, seed=given.seed)),
    ]
    show(reports, as_json=given.json)


if __name__ == "__main__":
    main()
