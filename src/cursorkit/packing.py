"""MessagePack with one packer a thread: making a packer costs more than packing a body."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import msgpack

__all__ = ["packing"]


class _Packing(threading.local):
    def __init__(self) -> None:
        self.pack: Callable[[Any], bytes] = msgpack.Packer().pack


packing: Final = _Packing()
"""``packing.pack(value)`` returns the shortest form of a value; floats take 64 bits."""
