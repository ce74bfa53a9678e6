"""Keys rotate over a fleet: what `KeyRing.lint` allows refuses no cursor, the rest it names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cursorkit import (
    Binding,
    CursorCodec,
    ExpiredCursorError,
    ExpiringCodec,
    InvalidCursorError,
    Key,
    KeyRing,
    Offset,
    SealedCodec,
    SignedCodec,
)
from cursorkit.testing import FakeClock

BINDING = Binding("tools/list", principal="alice")
KEYS = tuple(Key(bytes([number]) * 32, name=f"key-{number}") for number in range(4))
OLD, NEW, *_ = KEYS

TTL, QUANTUM, SKEW = 600, 60, 60
LIFE = TTL + QUANTUM + SKEW
"""How long an operator waits: no cursor lives longer by any node's clock."""

OFFSETS = (-SKEW // 2, 0, SKEW // 2)
"""How wrong each node's clock is, in seconds."""


def reads(codec: CursorCodec, cursor: str) -> bool:
    """Return whether a codec accepts a cursor."""
    try:
        codec.decode(cursor, BINDING)
    except InvalidCursorError:
        return False
    return True


def rings() -> Iterator[KeyRing]:
    """Return every ring that can be made of the keys."""
    for primary in KEYS:
        others = [key for key in KEYS if key is not primary]
        for count in range(len(others) + 1):
            for verify_only in itertools.combinations(others, count):
                yield KeyRing(primary, *verify_only)


SECONDS = st.sampled_from([1, 59, 60, TTL, LIFE - 1, LIFE])


class Node:
    """One of a fleet: a codec over the ring that it was started with."""

    def __init__(self, ring: KeyRing, clock: FakeClock) -> None:
        self.clock = clock
        self.restart(ring)

    def restart(self, ring: KeyRing) -> None:
        self.ring = ring
        inner = SignedCodec(ring, clock=self.clock)
        self.codec = ExpiringCodec(inner, ttl=TTL, quantum=QUANTUM, clock=self.clock)


class Rotation(RuleBasedStateMachine):
    """A fleet whose operators deploy whatever rings they like, if `lint` has nothing against it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000
        self.nodes = [Node(KeyRing(OLD), FakeClock(self.now + offset)) for offset in OFFSETS]
        self.target = self.nodes[0].ring
        self.changed = self.now
        self.minted = 0
        self.cursors: dict[str, int] = {}

    def deploy(self, new: KeyRing) -> None:
        """Begin to roll out a ring, unless a ring in use speaks against it."""
        in_use = {id(node.ring): node.ring for node in self.nodes}.values()
        waited = len(in_use) == 1 and self.now - self.changed >= LIFE
        if not any(ring.lint(new, waited=waited) for ring in in_use):
            self.target = new

    @rule(primary=st.sampled_from(KEYS), others=st.sets(st.sampled_from(KEYS)))
    def deploy_anything(self, primary: Key, others: set[Key]) -> None:
        self.deploy(KeyRing(primary, *(others - {primary})))

    @rule(key=st.sampled_from(KEYS))
    def add(self, key: Key) -> None:
        if key not in self.target:
            self.deploy(KeyRing(*self.target, key))

    @rule(key=st.sampled_from(KEYS))
    def promote(self, key: Key) -> None:
        self.deploy(KeyRing(key, *(other for other in self.target if other is not key)))

    @precondition(lambda self: self.target.verify_only)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.discard(data.draw(st.sampled_from(list(self.target))))

    def discard(self, key: Key) -> None:
        self.deploy(KeyRing(*(other for other in self.target if other is not key)))

    @rule(number=st.integers(0, 2))
    def restart(self, number: int) -> None:
        node = self.nodes[number]
        if node.ring is not self.target:
            self.changed = self.now
        node.restart(self.target)
        self.mint(node, None)

    @rule()
    def restart_all(self) -> None:
        for number in range(3):
            self.restart(number)

    @rule(seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        self.now += seconds
        for node in self.nodes:
            node.clock.advance(seconds)

    @rule(key=st.sampled_from(KEYS), seconds=SECONDS)
    def rotate(self, key: Key, seconds: int) -> None:
        """Go by the book, but wait as long as one likes."""
        old = self.target.primary
        self.add(key)
        self.restart_all()
        self.promote(key)
        self.restart_all()
        self.wait(seconds)
        if old is not self.target.primary:
            self.discard(old)
            self.restart_all()

    @rule(number=st.integers(0, 2))
    def list_first(self, number: int) -> None:
        self.mint(self.nodes[number], None)

    @precondition(lambda self: self.cursors)
    @rule(number=st.integers(0, 2), data=st.data())
    def list_next(self, number: int, data: st.DataObject) -> None:
        node = self.nodes[number]
        expires_at = self.cursors[data.draw(st.sampled_from(list(self.cursors)))]
        if node.clock.now < expires_at:
            self.mint(node, expires_at)

    def mint(self, node: Node, expires_at: int | None) -> None:
        self.minted += 1
        cursor = node.codec.encode(Offset(self.minted), BINDING, expires_at=expires_at)
        found = node.codec.decode(cursor, BINDING).expires_at
        assert found is not None
        self.cursors[cursor] = found
        if len(self.cursors) > 8:  # enough for every key and life; each is tried after each step
            del self.cursors[next(iter(self.cursors))]

    @invariant()
    def no_node_refuses_a_cursor_before_its_expiry(self) -> None:
        slowest = min(node.clock.now for node in self.nodes)
        self.cursors = {c: expiry for c, expiry in self.cursors.items() if slowest < expiry}
        for cursor, expires_at in self.cursors.items():
            for node in self.nodes:
                if node.clock.now < expires_at:
                    node.codec.decode(cursor, BINDING)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(stateful_step_count=40)
TestRotation.__doc__ = "No order of deployments that `lint` allows refuses a living cursor."


@pytest.mark.parametrize("waited", [False, True])
def test_lint_names_exactly_the_keys_whose_cursors_would_be_refused(waited: bool) -> None:
    """For any two rings: cursors of both, and all that may live from before, are tried on both."""
    for old, new in itertools.product(rings(), rings()):
        before, after = SignedCodec(old), SignedCodec(new)
        living = [old.primary] if waited else list(old)
        minted = {key: SignedCodec(KeyRing(key)).encode(Offset(1), BINDING) for key in living}
        refused = {key.name for key, cursor in minted.items() if not reads(after, cursor)}
        if not reads(before, after.encode(Offset(1), BINDING)):
            refused.add(new.primary.name)
        problems = old.lint(new, waited=waited)
        assert {name for name in refused if any(name in line for line in problems)} == refused
        assert len(problems) == len(refused)


def test_the_steps_of_a_rotation_pass_and_each_shortcut_is_named() -> None:
    """Add, promote, wait, remove; a step left out is told by the key that is at fault."""
    alone, added = KeyRing(OLD), KeyRing(OLD, NEW)
    promoted, done = KeyRing(NEW, OLD), KeyRing(NEW)
    assert alone.lint(added) == added.lint(promoted) == promoted.lint(done, waited=True) == []
    assert alone.lint(promoted) == [
        f"{NEW!r} mints before every node reads it: add it as verify-only first"
    ]
    assert added.lint(done) == [
        f"{OLD!r} still mints: promote another key before removing it",
    ]
    assert promoted.lint(done) == [
        f"{OLD!r} is removed while its cursors may live: wait for the longest ttl + quantum"
        " + clock skew after the last change is on every node"
    ]
    assert len(alone.lint(done, waited=True)) == 2
    assert promoted.lint(added) == []  # the way back, while both keys are there


def test_a_step_that_begins_before_the_last_one_is_everywhere_is_named() -> None:
    """While some nodes have only the old key, promoting the new one is refused by their ring."""
    alone, added, promoted = KeyRing(OLD), KeyRing(OLD, NEW), KeyRing(NEW, OLD)
    assert [bool(ring.lint(promoted)) for ring in (alone, added)] == [True, False]


def test_a_replaced_secret_under_an_old_name_is_named() -> None:
    """Names mean nothing to a cursor: another secret is another key, and the lines say which."""
    other = Key(bytes(range(32)), name=OLD.name)
    problems = KeyRing(OLD).lint(KeyRing(other))
    assert [OLD.kid.hex() in line for line in problems] == [False, True]
    assert [other.kid.hex() in line for line in problems] == [True, False]


def test_the_order_of_verify_only_keys_and_new_objects_mean_nothing() -> None:
    """A ring that was read again, its keys in another order, is the same ring."""
    again = KeyRing.from_env(environ={"CURSORKIT_KEYS": KeyRing(OLD, *KEYS[:0:-1]).to_json()})
    assert KeyRing(*KEYS).lint(again) == again.lint(KeyRing(*KEYS)) == []


def test_waiting_a_second_less_would_refuse_a_cursor() -> None:
    """The longest ttl + quantum + skew is what it takes, with the clocks as wrong as allowed."""
    early, late = FakeClock(1_800_000_060.5), FakeClock(1_800_000_000.5)
    assert early.now - late.now == SKEW
    old = ExpiringCodec(SignedCodec(KeyRing(OLD), clock=early), ttl=TTL, clock=early)
    both = SignedCodec(KeyRing(NEW, OLD), clock=late)
    cursor = old.encode(Offset(1), BINDING)
    late.advance(LIFE - 1)
    assert both.decode(cursor, BINDING).position == Offset(1)
    late.advance(1)
    with pytest.raises(ExpiredCursorError):
        both.decode(cursor, BINDING)


@pytest.mark.parametrize("suite", [SignedCodec, SealedCodec])
def test_revocation_is_explicit_and_immediate(
    suite: type[SignedCodec] | type[SealedCodec],
) -> None:
    """A codec with a ring without the key refuses at once, whatever was prepared for it before."""
    with_key = suite(KeyRing(NEW, OLD))
    cursor = suite(KeyRing(OLD)).encode(Offset(1), BINDING)
    assert reads(with_key, cursor)
    assert not reads(suite(KeyRing(NEW)), cursor)
    assert reads(with_key, cursor)
