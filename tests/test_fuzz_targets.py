"""The fuzz targets without a fuzzer: their corpus, inputs near it, and faults that they notice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from cursorkit import MsgpackItems, SnapshotStore
from cursorkit.codecs.base import from_text
from cursorkit.snapshots import _fetch as fetch
from cursorkit.stores.base import VerifiedBlobs
from fuzz import targets
from fuzz.targets import TARGETS

CORPUS = Path(targets.__file__).parent / "corpus"

every_target = pytest.mark.parametrize("name", TARGETS)


def _corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def _near(seeds: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield inputs made of the seeds: bytes altered, pieces moved, cut or repeated."""
    source = random.Random(seed)  # noqa: S311  # examples, no secrets
    for _ in range(count):
        data = bytearray(source.choice(seeds))
        for _ in range(source.randrange(4)):
            at, until = sorted(source.randrange(len(data) + 1) for _ in range(2))
            other = source.choice(seeds)
            data[at:until] = source.choice(
                (b"", source.randbytes(until - at), other[at:until], data[at:until] * 2)
            )
        yield bytes(data) if source.random() < 0.9 else source.randbytes(source.randrange(80))


@every_target
def test_nothing_breaks_a_target(name: str) -> None:
    """Not the committed corpus, nor 2,000 inputs near it."""
    seeds = _corpus(name)
    assert len(seeds) >= 5
    for data in (*seeds, *_near(seeds, 2000, 7)):
        TARGETS[name](data)


def _leave_padding(text: str, max_length: int) -> bytes:
    return from_text(text.rstrip("="), max_length)


def _crash(body: bytes) -> NoReturn:
    raise KeyError(body)


async def _lose_an_item(store: SnapshotStore, digests: list[bytes], kind: bytes) -> Sequence[bytes]:
    payloads = await fetch(store, digests, kind)
    return payloads[:-1] if kind == b"I" else payloads


def _add_a_slash(path: str) -> str:
    return path + "/"


def _add_a_letter(value: str) -> str:
    return value + "x"


FAULTS: dict[str, tuple[str, object]] = {
    "raw": ("cursorkit.codecs.base.from_text", _leave_padding),
    "body": ("cursorkit.codecs.base.decode_body", _crash),
    "replies": ("cursorkit.stores.redis.verified", VerifiedBlobs),
    "tree": ("cursorkit.snapshots._fetch", _lose_an_item),
    "uri": ("cursorkit.catalogs.uris._without_dots", _add_a_slash),
    "template": ("cursorkit.catalogs.templates._decoded", _add_a_letter),
    "frontmatter": ("cursorkit.catalogs.skills.frontmatter._JSON", MsgpackItems()),
}


def _run_corpus(name: str) -> None:
    for data in _corpus(name):
        TARGETS[name](data)


@every_target
def test_a_target_notices_a_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fault planted, the corpus alone brings it out."""
    _run_corpus(name)
    monkeypatch.setattr(*FAULTS[name])
    with pytest.raises((AssertionError, KeyError, TypeError, ValueError)):
        _run_corpus(name)


def test_without_a_fuzzer_it_says_that_nothing_was_fuzzed() -> None:
    """Where atheris has no wheel, the run says so and does not pass for one that found nothing."""
    program = (
        "import sys, importlib.util as u; u.find_spec = lambda name: None;"
        "from fuzz.__main__ import main; sys.exit(main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CORPUS.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("NOT FUZZED: atheris is not installed")
