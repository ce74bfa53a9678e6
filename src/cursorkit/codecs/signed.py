"""Suite 0x11: HMAC-SHA-256, its tag truncated to 16 bytes (RFC 2104 §5)."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from typing import ClassVar, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from cursorkit.binding import Binding, pae
from cursorkit.codecs.base import DEFAULT_MAX_LENGTH, TAG_BYTES, KeyedCodec
from cursorkit.keys import Key, KeyRing

__all__ = ["SignedCodec"]

_LABEL: Final = b"cursorkit/1"

_PREPARED: Final = 256
"""How many bindings' HMAC states are kept ready; together with the next limit, about 1 MiB."""

_PREPARED_BYTES: Final = 4096
"""The longest associated data that is kept, in bytes."""


class SignedCodec(KeyedCodec):
    """Signed cursors: anyone can read where one points, nobody can make or move one."""

    _suite: ClassVar[bytes] = b"\x11"

    def __init__(
        self,
        ring: KeyRing,
        *,
        clock: Callable[[], float] = time.time,
        max_length: int = DEFAULT_MAX_LENGTH,
    ) -> None:
        super().__init__(ring, clock=clock, max_length=max_length)
        self._prepared: dict[tuple[Key, bytes], HMAC] = {}

    def _protect(self, key: Key, binding: Binding, body: bytes) -> bytes:
        associated_data = binding.associated_data
        prepared = self._prepared.get((key, associated_data))
        if prepared is None:
            prepared = self._prepare(key, associated_data)
        mac = prepared.copy()
        mac.update(len(body).to_bytes(8, "little") + body)
        return body + mac.finalize()[:TAG_BYTES]

    def _verify(self, key: Key, binding: Binding, protected: bytes) -> bytes | None:
        body = protected[:-TAG_BYTES]
        if not hmac.compare_digest(protected, self._protect(key, binding, body)):
            return None
        return body

    def _prepare(self, key: Key, associated_data: bytes) -> HMAC:
        """Return the HMAC state after all that comes before the body and its length."""
        mac = HMAC(key.hmac_key, SHA256())
        mac.update(pae([_LABEL, self._suite + key.kid, associated_data, b""])[:-8])
        # A client may put megabytes into a request's params: they are not worth keeping.
        if len(associated_data) <= _PREPARED_BYTES:
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()
            self._prepared[key, associated_data] = mac
        return mac
