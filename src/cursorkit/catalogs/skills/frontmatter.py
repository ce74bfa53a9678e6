"""The YAML frontmatter of a SKILL.md as JSON; strict, as clients compare it field by field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

from cursorkit.errors import SourceError
from cursorkit.items import JsonItems

try:
    import yaml
except ImportError as missing:
    raise ImportError(
        "SkillCatalog needs PyYAML: pip install 'cursorkit[skills]'", name="yaml"
    ) from missing

__all__ = ["MAX_FRONTMATTER", "FrontmatterError", "parse_frontmatter"]

MAX_FRONTMATTER: Final = 64 * 1024
"""Characters within which the frontmatter ends: parsing takes about a millisecond a kilobyte."""

_BLOCK: Final = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_JSON: Final = JsonItems()


class FrontmatterError(Exception):
    """Says what is wrong, and what to do; reads on from the file's name."""


def parse_frontmatter(data: bytes) -> dict[str, Any]:
    """Return the frontmatter of a SKILL.md, every field as it was written.

    Raises:
        FrontmatterError: If there is none, if it is not what the Agent Skills specification asks
            for, or if JSON cannot carry it.
    """
    fields = _mapping(_block(data))
    _check_text(fields, "description", 1024, required=True)
    _check_text(fields, "compatibility", 500)
    _check_text(fields, "license")
    name, tools = fields.get("name"), fields.get("allowed-tools", "")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise FrontmatterError(
            "needs a name, a text of 1 to 64 lower-case letters, digits and single hyphens between"
            " them; in quotes if it is a number"
        )
    if not isinstance(fields.get("metadata", {}), dict):
        raise FrontmatterError("has metadata that is no mapping; write its fields one a line")
    listed = cast("list[object]", tools) if isinstance(tools, list) else [tools]
    if not all(isinstance(tool, str) for tool in listed):
        raise FrontmatterError("has allowed-tools that is neither a text nor a list of texts")
    return fields


def _block(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FrontmatterError("is not UTF-8; save it in that encoding") from None
    block = _BLOCK.match(text[:MAX_FRONTMATTER])
    if block is None:
        raise FrontmatterError(
            "does not begin with frontmatter; begin it with a line ---, the fields name and"
            f" description, and a line ---, all in the first {MAX_FRONTMATTER} characters"
        )
    return block[1]


class _Loader(yaml.SafeLoader):
    """Makes what JSON has too: no aliases, which a few bytes of can mean gigabytes, no merging."""

    # These make lists of tuples, which JSON would turn into lists of lists.
    yaml_constructors = {  # noqa: RUF012  # as PyYAML has it
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag not in ("tag:yaml.org,2002:omap", "tag:yaml.org,2002:pairs")
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # of the stubs
            raise _problem("an alias; write out what it stands for", event)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        make = cast("Callable[..., Any]", self.construct_object)  # pyright: ignore[reportUnknownMemberType]  # of the stubs
        for key_node, value_node in node.value:
            key = make(key_node, deep=deep)
            if type(key) is not str:
                raise _problem("a key that is no text; put it in quotes", key_node)
            if key in made:
                raise _problem("a key that came before", key_node)
            made[key] = make(value_node, deep=deep)
        return made


def _problem(problem: str, where: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=where.start_mark)


def _mapping(text: str) -> dict[str, Any]:
    try:
        fields: Any = yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader, and stricter
    except yaml.MarkedYAMLError as error:
        raise FrontmatterError(f"has frontmatter that cannot be read: {_told(error)}") from None
    except yaml.YAMLError:
        raise FrontmatterError("has a control character in its frontmatter; remove it") from None
    except RecursionError:
        raise FrontmatterError("has frontmatter that is nested too deep") from None
    except ValueError:
        raise FrontmatterError(
            "has a date or number in its frontmatter that there is not; put it in quotes"
        ) from None
    if not isinstance(fields, dict):
        raise FrontmatterError("has frontmatter that is no mapping; write a line for each field")
    try:
        _JSON.encode(fields)
    except SourceError:
        raise FrontmatterError(
            "has a value in its frontmatter that JSON has not, a date for example; put it in quotes"
        ) from None
    return cast("dict[str, Any]", fields)


def _told(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    # The frontmatter begins with the file's second line, and marks count from 0.
    return f"{error.problem}" if mark is None else f"line {mark.line + 2}: {error.problem}"


def _check_text(
    fields: dict[str, Any], name: str, most: int | None = None, *, required: bool = False
) -> None:
    if name not in fields and not required:
        return
    text = fields.get(name)
    if not isinstance(text, str) or not text.strip() or (most is not None and len(text) > most):
        limit = "" if most is None else f" of at most {most} characters"
        raise FrontmatterError(f"needs {name} to be a text{limit} that is not empty, in quotes")
