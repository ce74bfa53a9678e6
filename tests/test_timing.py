"""The timing check: its arithmetic, and that it finds a leak on a clock that counts comparisons."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from benchmarks import timing
from cursorkit import InvalidCursorError, Key, KeyRing, Offset, SealedCodec, SignedCodec
from cursorkit.codecs.base import TAG_BYTES

RING = KeyRing(Key(bytes(range(32))))


def test_welch_gives_a_known_answer() -> None:
    """The difference of the means and its standard error, worked out by hand."""
    difference, error = timing.welch([1, 2, 3, 4, 5], [2, 4, 6, 8, 10, 12])
    assert difference == 4
    assert error == pytest.approx((2.5 / 5 + 14 / 6) ** 0.5)


def _noisy(seed: int, mean: float) -> list[int]:
    source = random.Random(seed)  # noqa: S311  # noise, no secret
    return [round(source.gauss(mean, 500)) for _ in range(5000)]


def test_a_leak_is_told_from_noise() -> None:
    """Two samples of one distribution do not leak; 200 ns apart in noise of 500 ns, they do."""
    quiet = timing.judge("quiet", (_noisy(1, 7000), _noisy(2, 7000)))
    leaky = timing.judge("leaky", (_noisy(1, 7000), _noisy(2, 7200)))
    assert not quiet.leaks
    assert leaky.leaks
    assert leaky.difference == pytest.approx(200, abs=60)
    assert leaky.difference > leaky.visible
    assert "no difference" in quiet.text()
    assert "no difference" not in leaky.text()


def test_timings_that_are_all_equal_do_not_leak() -> None:
    """A clock that stands still gives no verdict against a codec."""
    assert not timing.judge("still", ([5] * 9, [5] * 9)).leaks


@pytest.mark.parametrize(
    ("make", "tag_at"),
    [(SignedCodec, -TAG_BYTES), (timing.EarlyExit, -TAG_BYTES), (SealedCodec, 5)],
)
def test_the_two_classes_differ_in_the_first_and_the_last_byte_of_the_tag(
    make: type[SignedCodec | SealedCodec], tag_at: int
) -> None:
    """Each cursor is a good one but for that byte, and there are as many of either class."""
    codec = make(RING)
    good = {timing.raw_of(codec.encode(Offset(n), timing.BINDING)) for n in range(1000, 1251)}
    found = timing.pools(codec, tag_at=tag_at, source=random.Random(3))  # noqa: S311
    for cursors, place in zip(found, (0, TAG_BYTES - 1), strict=True):
        assert len(set(cursors)) == len(good)
        for cursor in cursors:
            raw = timing.raw_of(cursor)
            at = (tag_at if tag_at >= 0 else len(raw) + tag_at) + place
            assert any(raw[:at] == each[:at] and raw[at + 1 :] == each[at + 1 :] for each in good)
            with pytest.raises(InvalidCursorError) as caught:
                codec.decode(cursor, timing.BINDING)
            assert caught.value.reason == "tag"


def test_an_early_exit_is_found_out_by_a_clock_that_counts_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With time that passes only while bytes are compared, the control leaks, and by 15 steps."""
    steps = 0

    def counted(*samples: bytes, strict: bool) -> Iterator[tuple[int, ...]]:
        nonlocal steps
        for pair in zip(*samples, strict=strict):
            steps += 1
            yield pair

    monkeypatch.setattr(timing, "zip", counted, raising=False)
    codec = timing.EarlyExit(RING)
    timings = timing.measure(
        codec, tag_at=-TAG_BYTES, calls=2000, seconds=60, seed=3, timer=lambda: steps
    )
    verdict = timing.judge("control", timings)
    assert verdict.leaks
    means = [sum(sample) / len(sample) for sample in timings]
    assert means[1] - means[0] == 15


def test_a_run_prints_a_verdict_for_each_codec(capsys: pytest.CaptureFixture[str]) -> None:
    """The control, signed and sealed, as text or JSON. What the verdict is, is not asserted."""
    code = timing.main(["--calls", "600", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [verdict["name"].split(",")[0] for verdict in found["verdicts"]] == [
        "control", "signed", "sealed"
    ]  # fmt: skip
    assert [verdict["calls"] for verdict in found["verdicts"]] == [60, 600, 600]
    assert code == (0 if found["passed"] else 1)
    timing.main(["--calls", "600"])
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_a_run_is_bounded_in_time() -> None:
    """When the seconds are over, it stops after a batch of calls."""
    timings = timing.measure(
        SignedCodec(RING), tag_at=-TAG_BYTES, calls=1_000_000, seconds=0, seed=3
    )
    assert 0 < sum(map(len, timings)) <= 5000
