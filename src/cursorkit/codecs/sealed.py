"""Suite 0x12: AES-256-SIV (RFC 5297), the body encrypted, the SIV as its tag."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from cursorkit.binding import Binding, pae
from cursorkit.codecs.base import DEFAULT_MAX_LENGTH, KeyedCodec
from cursorkit.keys import Key, KeyRing

__all__ = ["SealedCodec"]

_LABEL: Final = b"cursorkit/1"


class SealedCodec(KeyedCodec):
    """Sealed cursors: as `SignedCodec`, and nobody can read where one points.

    A signed cursor shows its holder an offset and the digest of what they were shown. Seal where a
    third party must not compare two cursors, or where a position is a secret. A sealed cursor is as
    long as a signed one; its length still tells how many digits the offset has, more or less.
    """

    _suite: ClassVar[bytes] = b"\x12"

    def __init__(
        self,
        ring: KeyRing,
        *,
        clock: Callable[[], float] = time.time,
        max_length: int = DEFAULT_MAX_LENGTH,
    ) -> None:
        super().__init__(ring, clock=clock, max_length=max_length)
        self._ciphers = {key: AESSIV(key.siv_key) for key in ring}

    def _protect(self, key: Key, binding: Binding, body: bytes) -> bytes:
        return self._ciphers[key].encrypt(body, [self._associated(key, binding)])

    def _verify(self, key: Key, binding: Binding, protected: bytes) -> bytes | None:
        try:
            return self._ciphers[key].decrypt(protected, [self._associated(key, binding)])
        except InvalidTag:
            return None

    def _associated(self, key: Key, binding: Binding) -> bytes:
        return pae([_LABEL, self._suite + key.kid, binding.associated_data])
