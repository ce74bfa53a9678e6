"""A localized catalog on two nodes: what a walk survives, and how its cursors are refused.

`python examples/localized_fleet.py` prints a walk and the refusals; the log, on stderr, says why. A
cursor is bound to a principal, a partition, a canonical locale and a revision of the translations;
the root in it pins the revision of the catalog.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import anyio
from mcp import Client, MCPError
from mcp.server import Server
from mcp.types import Tool

from cursorkit import ExpiringCodec, Key, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import list_handler

WORDS = {"de-DE": "Zange", "en-GB": "Pliers"}
REFUSED = {"code": -32602, "message": "Invalid cursor"}
Clock = Callable[[], float]


def canonical(locale: str) -> str:
    """Spell a language tag without extensions as RFC 5646 §2.1.1 does: zh-Hant-TW."""
    language, *subtags = locale.replace("_", "-").split("-")
    cases = {2: str.upper, 4: str.capitalize}
    return "-".join([language.lower(), *(cases.get(len(s), str.lower)(s) for s in subtags)])


class Node:
    """A server with a key ring, a codec and a paginator of its own."""

    revision = 1  # of the catalog, on every node

    def __init__(
        self, key: Key, store: MemoryStore, localization: str = "2026-11", clock: Clock = time.time
    ) -> None:
        codec = ExpiringCodec(SignedCodec(KeyRing(key), clock=clock), ttl=600, clock=clock)
        self._asked: dict[str, str] = {}
        handler = list_handler(
            "tools/list",
            SnapshotPaginator(codec, store, clock=clock),
            self._tools,
            audience="fleet",
            bind=lambda ctx, binding: binding.replace(
                **self._asked, params={**(binding.params or {}), "localization": localization}
            ),
            page_size=2,
        )
        self._server = Server("fleet", on_list_tools=handler)

    def _tools(self, ctx: object) -> list[Tool]:
        title, schema = f"{WORDS[self._asked['locale']]} {self.revision}", {"type": "object"}
        return [Tool(name=f"t{n}", title=f"{title}.{n}", input_schema=schema) for n in range(5)]

    async def ask(self, cursor: str | None, **changes: str) -> tuple[object, str | None]:
        """Return titles, or the error, and a cursor; in earnest, the request tells who asks."""
        asked = {"principal": "alice", "partition": "acme", "locale": "de-DE", **changes}
        self._asked = {**asked, "locale": canonical(asked["locale"])}
        async with Client(self._server, mode="2026-07-28") as client:
            try:
                page = await client.list_tools(cursor=cursor)
            except MCPError as refusal:
                return refusal.error.model_dump(exclude_unset=True), None
        return [tool.title for tool in page.tools], page.next_cursor


async def main() -> None:
    key, store = Key.generate(), MemoryStore()
    a, b = Node(key, store), Node(key, store)
    first, cursor = await a.ask(None, locale="de_de")
    Node.revision = 2
    second, following = await b.ask(cursor, locale="DE-de")
    third, end = await a.ask(following)
    print("one walk:", *(told := [first, second, third, end]))
    attempts = {
        "tampered": b.ask(f"{cursor}"[:-9] + f"{following}"[-9:]),
        "principal": b.ask(cursor, principal="mallory"),
        "partition": b.ask(cursor, partition="other"),
        "locale": b.ask(cursor, locale="en-GB"),
        "localization": Node(key, store, "2026-12").ask(cursor),
        "key": Node(Key.generate(), store).ask(cursor),
        "expired": Node(key, store, clock=lambda: time.time() + 700).ask(cursor),
        "lost": Node(key, MemoryStore()).ask(cursor),
    }
    for what, attempt in attempts.items():
        told.append((await attempt)[0])
        print(f"{what:12}  {told[-1]}")
    walk = [["Zange 1.0", "Zange 1.1"], ["Zange 1.2", "Zange 1.3"], ["Zange 1.4"], None]
    if told != walk + [REFUSED] * len(attempts):
        sys.exit("one of these is not as it should be")


if __name__ == "__main__":
    anyio.run(main)
