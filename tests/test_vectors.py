"""The published vectors: what cursorkit, a verifier in JavaScript and PyCryptodome make of them."""

from __future__ import annotations

import base64
import json
import random
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from Crypto.Cipher import AES

from cursorkit import (
    Binding,
    ConfigurationError,
    CursorCodec,
    CursorError,
    EncodingError,
    ExpiringCodec,
    Key,
    KeyRing,
    Keyset,
    Offset,
    OffsetCodec,
    Opaque,
    SealedCodec,
    SignedCodec,
    SnapshotOffset,
)
from cursorkit.positions import Position
from cursorkit.testing import FakeClock
from tests import independent
from tests.hostile import BODIES
from tests.vectors import generate

Vector = dict[str, Any]

FOLDER = generate.FOLDER
RELEASED = FOLDER / "released"
FILES = {
    path.relative_to(FOLDER).as_posix(): json.loads(path.read_text(encoding="ascii"))
    for path in [*sorted(FOLDER.glob("*.json")), *sorted(RELEASED.glob("*/*.json"))]
}
"""The vectors of this version, and of every version that was released."""

KEYS = {"current": Key(generate.CURRENT), "old": Key(generate.OLD)}

every_file = pytest.mark.parametrize("name", FILES)


# What a vector describes.


READERS: Mapping[str, Callable[[Any], Any]] = {
    "nil": lambda _: None,
    "bool": bool,
    "int": int,
    "float": lambda digits: struct.unpack(">d", bytes.fromhex(digits))[0],
    "text": str,
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "naive": datetime.fromisoformat,
    "aware": datetime.fromisoformat,
    "uuid": lambda digits: UUID(hex=digits),
    "list": lambda members: [_value(member) for member in members],
    "map": lambda members: {name: _value(member) for name, member in members},
}


def _value(described: Mapping[str, Any]) -> Any:
    ((kind, content),) = described.items()
    return READERS[kind](content)


def _binding(fields: Mapping[str, Any]) -> Binding:
    arguments = {name: _value(field) for name, field in fields.items() if name != "params"}
    arguments.setdefault("purpose", None)
    return Binding(**arguments, params=_value({"map": fields.get("params", [])}))


def _position(described: Mapping[str, Any]) -> Position:
    match described["kind"]:
        case 1:
            return Offset(described["offset"])
        case 2:
            return Keyset(tuple(map(_value, described["values"])))
        case 3:
            root = bytes.fromhex(described["root"])
            return SnapshotOffset(root, described["offset"], described["page_size"])
        case _:
            return Opaque(bytes.fromhex(described["data"]))


def _codec(vector: Vector, primary: str = "current") -> CursorCodec:
    """Return the codec of a vector's suite and policy, with both keys."""
    ring = KeyRing(KEYS[primary], *(key for name, key in KEYS.items() if name != primary))
    clock = FakeClock(vector["now"])
    made: dict[int, Callable[[], CursorCodec]] = {
        0x01: OffsetCodec,
        0x11: lambda: SignedCodec(ring, clock=clock),
        0x12: lambda: SealedCodec(ring, clock=clock),
    }
    codec = made[vector["suite"]]()
    return ExpiringCodec(codec, **vector["policy"], clock=clock) if "policy" in vector else codec


# What cursorkit makes of it: nothing, or what is wrong.


def _check_cursor(vector: Vector) -> str | None:
    binding = _binding(vector["binding"])
    try:
        decoded = _codec(vector).decode(vector["cursor"], binding)
    except CursorError as error:
        expected = None if vector["valid"] else vector["reason"]
        return None if error.reason == expected else f"refused: {error.reason}"
    if not vector["valid"]:
        return "accepted"
    position, expires_at = _position(vector["position"]), vector["expires_at"]
    if repr(decoded) != f"DecodedCursor({position!r}, expires_at={expires_at})":
        return f"decoded as {decoded}"
    stamped = vector.get("stamped", False)
    minted = _codec(vector, vector["minted_by"]).encode(
        position, binding, expires_at=None if stamped else expires_at
    )
    return None if minted == vector["cursor"] else f"minted as {minted}"


def _check_secret(vector: Vector) -> str | None:
    try:
        key = Key(vector["secret"])
    except ConfigurationError:
        return None if not vector["valid"] and vector["reason"] == "secret" else "refused"
    if not vector["valid"]:
        return "accepted"
    found = key.kid.hex(), key.hmac_key.hex(), key.siv_key.hex()
    same = found == (vector["kid"], vector["hmac_key"], vector["siv_key"])
    same = same and key.kid == Key(bytes.fromhex(vector["bytes"])).kid
    return None if same else f"derived as {found}"


def _check_binding(vector: Vector) -> str | None:
    try:
        found = _binding(vector["binding"]).associated_data.hex()
    except EncodingError:
        return None if not vector["valid"] and vector["reason"] == "binding" else "refused"
    if not vector["valid"]:
        return "accepted"
    return None if found == vector["associated_data"] else found


def _check(vector: Vector) -> str | None:
    if "cursor" in vector:
        return _check_cursor(vector)
    return _check_secret(vector) if "secret" in vector else _check_binding(vector)


def _problems(vectors: list[Vector]) -> list[str]:
    found = [(vector["about"], _check(vector)) for vector in vectors]
    return [f"{about}: {problem}" for about, problem in found if problem is not None]


@every_file
def test_cursorkit_agrees_with_every_vector(name: str) -> None:
    """What is good is read and minted exactly so; what is bad is refused for the reason given."""
    assert FILES[name]["format"] == "cursorkit/1"
    assert FILES[name]["vectors"]
    assert _problems(FILES[name]["vectors"]) == []


def _wrong(vector: Vector) -> Vector:
    """Return a vector that demands the opposite, or another answer."""
    if not vector["valid"]:
        return {**vector, "reason": "range"}
    if "cursor" in vector:
        return {**vector, "expires_at": 7}
    return {**vector, "kid": "00000000", "associated_data": "00"}


@every_file
def test_a_wrong_vector_is_noticed(name: str) -> None:
    """With another answer demanded of each vector, not one of them passes."""
    vectors = [_wrong(vector) for vector in FILES[name]["vectors"]]
    assert len(_problems(vectors)) == len(vectors)


# The files.


def test_the_files_are_what_their_generator_writes(tmp_path: Path) -> None:
    """`python -m tests.vectors.generate`, run again, gives the same bytes, and no file is extra."""
    generate.main([], tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}


def test_there_are_vectors_of_everything() -> None:
    """At least 300, most of which must fail; each suite, kind, field, extension and reason."""
    vectors = [vector for name in FILES if "/" not in name for vector in FILES[name]["vectors"]]
    bad = [vector for vector in vectors if not vector["valid"]]
    assert len(vectors) >= 300
    assert len(bad) >= 0.6 * len(vectors)
    for suite, kinds in ((0x01, {1}), (0x11, {1, 2, 3, 4}), (0x12, {1, 2, 3, 4})):
        of_suite = [vector for vector in vectors if vector.get("suite") == suite]
        good = [vector["position"] for vector in of_suite if vector["valid"]]
        assert {position["kind"] for position in good} == kinds
        if suite != 0x01:
            values = [value for position in good for value in position.get("values", ())]
            assert {kind for value in values for kind in value} == READERS.keys() - {"list", "map"}
        bound = [vector["binding"] for vector in of_suite if vector.get("reason") == "tag"]
        fields = {name for binding in bound for name in binding}
        hashed = {"purpose", "protocol_version", "params"}
        assert fields >= (hashed if suite == 0x01 else Binding.__annotations__.keys() - {
            "associated_data"})  # fmt: skip
        reasons = {vector["reason"] for vector in of_suite if not vector["valid"]}
        common = {"type", "length", "alphabet", "encoding", "suite", "tag", "body"}
        assert reasons == (common if suite == 0x01 else common | {"key", "expired", "expiry"})


# Releases.


def test_the_vectors_of_a_released_version_have_not_changed() -> None:
    """Each is there as it was on the day of the release: what was minted stays readable."""
    assert generate.pinned(RELEASED) == []


def test_a_released_vector_that_changes_is_found_out(tmp_path: Path) -> None:
    """Altered, removed or added after its release, a file is named; a release is made once."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("released"))
    (tmp_path / "released").mkdir()
    generate.release("1.2.3", tmp_path)
    released = tmp_path / "released"
    assert generate.pinned(released) == []
    assert {path.name for path in (released / "1.2.3").iterdir()} == set(generate.files())
    with pytest.raises(FileExistsError):
        generate.release("1.2.3", tmp_path)
    generate.release("1.2.4", tmp_path)
    assert generate.pinned(released) == []
    (released / "1.2.3" / "signed.json").write_text("{}", encoding="ascii")
    (released / "1.2.4" / "sealed.json").unlink()
    (released / "1.2.4" / "more.json").write_text("{}", encoding="ascii")
    assert generate.pinned(released) == [
        "1.2.3/signed.json has changed",
        "1.2.4/more.json is not pinned",
        "1.2.4/sealed.json is gone",
    ]


# The verifier in JavaScript. Node is no dependency: where it is not, these are skipped.

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="the JavaScript verifier needs node")


def _verify(*files: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what the verifier counts, and a line for each vector that it disagrees with."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, FOLDER / "verify.mjs", *files],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert (done.returncode == 0) is (found["failed"] == 0)
    return found, done.stderr.splitlines()


@needs_node
def test_the_verifier_agrees_with_every_vector() -> None:
    """An implementation in another language, made from docs/format.md, reads all of them so."""
    found, lines = _verify()
    assert lines == []
    assert found["failed"] == 0
    assert found["checked"] == {name: len(FILES[name]["vectors"]) for name in FILES}


@needs_node
def test_the_verifier_notices_wrong_vectors(tmp_path: Path) -> None:
    """With another answer demanded of each vector, it disagrees with every one."""
    path = tmp_path / "wrong.json"
    wrong = [_wrong(vector) for name in FILES for vector in FILES[name]["vectors"]]
    path.write_text(json.dumps({**FILES["signed.json"], "vectors": wrong}), encoding="ascii")
    found, lines = _verify(path)
    assert found["failed"] == len(lines) == len(wrong)


def _mutated(body: bytes, source: random.Random) -> bytes:
    """Return a body with a byte altered, inserted, removed or copied, or its end cut off."""
    at = source.randrange(len(body))
    byte = bytes([source.choice((source.randrange(256), body[source.randrange(len(body))]))])
    return source.choice(
        (
            body[:at] + byte + body[at + 1 :],
            body[:at] + byte + body[at:],
            body[:at] + body[at + 1 :],
            body[:at],
            body[: at + 1] + body[at:],
        )
    )


@needs_node
def test_the_verifier_and_cursorkit_agree_on_mutated_bodies(tmp_path: Path) -> None:
    """Of 3,000 bodies near good and hostile ones, both accept and refuse the same."""
    source = random.Random(5)  # noqa: S311  # examples, no secrets
    good = [
        bytes.fromhex(each["body"]) for each in FILES["signed.json"]["vectors"] if each["valid"]
    ]
    seeds = [body for body in (*good, *BODIES.values()) if len(body) < 200]
    bodies = {_mutated(source.choice(seeds), source) for _ in range(3000)}
    codec = SignedCodec(KeyRing(KEYS["current"]))
    vectors: list[Vector] = []
    for body in sorted(bodies):
        cursor = generate.signed(body, generate.BARE)
        vector: Vector = {"about": body.hex(), "suite": 0x11, "now": 0, "cursor": cursor}
        vector["binding"] = {"purpose": {"text": "tools/list"}}
        try:
            codec.decode(cursor, Binding("tools/list"), now=0)
        except CursorError as error:
            vectors.append({**vector, "valid": False, "reason": error.reason})
        else:
            # A reason that the verifier never gives: it shall say that it accepts.
            vectors.append({**vector, "valid": False, "reason": "accepted here"})
    path = tmp_path / "mutated.json"
    path.write_text(json.dumps({**FILES["signed.json"], "vectors": vectors}), encoding="ascii")
    _, lines = _verify(path)
    accepted = {vector["about"] for vector in vectors if vector["reason"] == "accepted here"}
    assert {json.loads(line.split(": ")[1]) for line in lines} == accepted
    assert 100 < len(accepted) < len(vectors) - 100


# AES-SIV a third time.


def _opens(cursor: str, binding: Binding) -> bool:
    """Whether PyCryptodome, with the keys of a sealed cursor, finds it authentic."""
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    secret = next(s for s in (generate.CURRENT, generate.OLD) if Key(s).kid == raw[1:5])
    cipher: Any = AES.new(independent.hkdf(secret, b"aes-256-siv", 64), AES.MODE_SIV)
    cipher.update(independent.pae(b"cursorkit/1", raw[:5], binding.associated_data))
    try:
        cipher.decrypt_and_verify(raw[21:], raw[5:21])
    except ValueError:
        return False
    return True


def test_pycryptodome_agrees_on_every_sealed_vector() -> None:
    """It opens what is good and what is refused only for its body or expiry, and no bad tag."""
    found: Counter[tuple[str, bool]] = Counter()
    for name in ("sealed.json", "expiring.json"):
        for vector in FILES[name]["vectors"]:
            reason = vector.get("reason", "good")
            if vector["suite"] == 0x12 and reason in {"good", "tag", "body", "expired", "expiry"}:
                found[reason, _opens(vector["cursor"], _binding(vector["binding"]))] += 1
    assert {reason for reason, opens in found if opens} == {"good", "body", "expired", "expiry"}
    assert {reason for reason, opens in found if not opens} == {"tag"}
    assert found["good", True] > 100
    assert found["tag", False] > 100
