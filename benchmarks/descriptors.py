"""Tool descriptors as servers list them, about 1 kB each, every one different."""

from __future__ import annotations

import random
from typing import Any, Final

__all__ = ["descriptors"]

_VERBS: Final = ("create", "list", "get", "update", "delete", "search", "export", "archive")
_NOUNS: Final = ("invoice", "issue", "deployment", "calendar event", "customer", "dashboard")
_PROSE: Final = (
    "returns the matching records together with their identifiers; use it before any change and"
    " prefer narrow filters since long answers are cut; fails when the workspace is locked or the"
    " caller may not see the project"
)
_WORDS: Final = _PROSE.split()
_TYPES: Final = ("string", "integer", "boolean", "number")


def descriptors(count: int, *, seed: int = 1) -> list[dict[str, Any]]:
    """Return `count` descriptors. They share their properties' schemas, so that many fit memory."""
    draw = random.Random(seed)  # noqa: S311  # sample data
    schemas = [_property(draw) for _ in range(200)]
    return [_descriptor(number, draw, schemas) for number in range(count)]


def _property(draw: random.Random) -> dict[str, Any]:
    return {"type": draw.choice(_TYPES), "description": _prose(draw, 10)}


def _prose(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(_WORDS, k=words))


def _descriptor(number: int, draw: random.Random, schemas: list[dict[str, Any]]) -> dict[str, Any]:
    verb, noun = draw.choice(_VERBS), draw.choice(_NOUNS)
    fields = [f"{noun.split()[0]}_{letter}" for letter in "abcdef"]
    return {
        "name": f"{verb}_{noun.replace(' ', '_')}_{number}",
        "title": f"{verb.title()} {noun}",
        "description": _prose(draw, 30),
        "inputSchema": {
            "type": "object",
            "properties": {field: draw.choice(schemas) for field in fields},
            "required": fields[:2],
        },
        "annotations": {"readOnlyHint": verb in {"list", "get", "search"}},
    }
