"""The benchmark of refusals: what it calls garbage is garbage of every kind, and it runs."""

from __future__ import annotations

import json
import logging
import random

import pytest

from benchmarks import bench_garbage
from cursorkit import Binding, InvalidCursorError, Key, KeyRing, Offset, SealedCodec, SignedCodec


@pytest.mark.parametrize("codec", [SignedCodec, SealedCodec])
def test_garbage_is_refused_by_every_check(codec: type[SignedCodec | SealedCodec]) -> None:
    """Each kind is as long as the good cursor, and together they reach every check of the text."""
    binding = Binding("tools/list")
    made = codec(KeyRing(Key(bytes(range(32)))))
    good = made.encode(Offset(50), binding)
    reasons: set[str] = set()
    for kind, cursor in bench_garbage.garbage(good, random.Random(1)).items():  # noqa: S311
        assert len(cursor) == len(good), kind
        with pytest.raises(InvalidCursorError) as caught:
            made.decode(cursor, binding)
        reasons.add(caught.value.reason)
    assert reasons == {"alphabet", "encoding", "suite", "key", "tag"}


def test_it_prints_the_dearest_garbage_of_each_length(capsys: pytest.CaptureFixture[str]) -> None:
    """A ratio for each suite and length, with the goal beside it, whatever the figure; no log."""
    log = logging.getLogger("cursorkit")
    before = log.level
    bench_garbage.main(["--rounds", "1", "--lengths", "64", "1024", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [ratio["name"].split(":")[0] for ratio in found["ratios"]] == [
        "signed, 64 characters",
        "signed, 1,024 characters",
        "sealed, 64 characters",
        "sealed, 1,024 characters",
    ]
    assert all(ratio["goal"] == 1.0 and ratio["value"] > 0 for ratio in found["ratios"])
    assert log.level == before
