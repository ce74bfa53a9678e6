"""URI templates of RFC 6570 level 1, and back: which variables make this URI."""

from __future__ import annotations

import re
from typing import Final

from cursorkit.catalogs.uris import check_uri, decode_unreserved
from cursorkit.errors import ConfigurationError

__all__ = ["UriTemplate"]

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")

# While a URI is matched, an encoded byte is one character, from U+E000 on: a URI has none of these.
_BYTES: Final = 0xE000
_TRIPLET: Final = re.compile(r"%([0-9A-F]{2})")
_VALUE: Final = re.compile(r"[A-Za-z0-9\-._~!$'()*+;=:@\ue000-\ue0ff]+")

# What a variable is when two templates are compared: one character of a value, and more of them.
_ONE: Final = "one"
_MORE: Final = "more"


class UriTemplate:
    """A template with `{name}` expressions only; it matches the URIs that it can expand to.

    A variable is at least one character long, and never takes a raw ``/``, ``?``, ``#``, ``&`` or
    ``,``; what may stand raw in a path segment is taken besides, as clients leave it raw. Values
    are percent-decoded once, so a value may well hold a ``/``: who opens files by it must check
    where they are. Where several splits are possible, earlier variables take as much as they can,
    like groups of a regular expression. A URI with dot segments matches nothing. Matching takes
    time in proportion to the URI's length.

    Args:
        template: Absolute, in normal form but for its expressions, at least one of these.

    Attributes:
        template: As given.
        variables: Their names, in order.

    Raises:
        ConfigurationError: If the template is of a higher level (operators, modifiers, several
            variables in one expression), has no variable, one twice, or two side by side, or is
            not an absolute URI in normal form where each expression stands for ``1``.
    """

    def __init__(self, template: str) -> None:
        pieces = _EXPRESSION.split(template)
        self.template = template
        self.variables = tuple(pieces[1::2])
        literals = pieces[::2]
        _check_literals(template, literals)
        _check_variables(template, self.variables)
        _check_form(template)
        self._literals = [_characters(literal) for literal in literals]
        self._elements = _elements(self._literals)
        # No variable can take these: two templates that overlap have the same.
        self._separators = _VALUE.sub("", "".join(self._literals))

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables that make this URI, percent-decoded; None if none do."""
        if not uri.isascii():
            return None
        text = _characters(uri)
        first, *inner = self._literals
        last = inner.pop()
        start, end = len(first), len(text) - len(last)
        if end < start or not (text.startswith(first) and text.endswith(last)):
            return None
        values: list[str] = []
        for literal in reversed(inner):
            at = text.rfind(literal, start, end - 1)
            if at < 0:
                return None
            values.append(text[at + len(literal) : end])
            end = at
        values.append(text[start:end])
        if not all(map(_VALUE.fullmatch, values)) or _has_dot_segment(text):
            return None
        try:
            decoded = [_decoded(value) for value in reversed(values)]
        except UnicodeDecodeError:
            return None
        return dict(zip(self.variables, decoded, strict=True))

    def overlaps(self, other: UriTemplate) -> bool:
        """Return whether some URI matches both templates."""
        if self._separators != other._separators or self._begins_apart(other):
            return False
        # Both are walked together, over whatever text both can go on with.
        todo = [(0, 0)]
        seen = set(todo)
        while todo:
            at = todo.pop()
            if at == (len(self._elements), len(other._elements)):
                return True
            for state in _next_states(self._elements, other._elements, *at):
                if state not in seen:
                    seen.add(state)
                    todo.append(state)
        return False

    def _begins_apart(self, other: UriTemplate) -> bool:
        """Return whether the texts before the first variables exclude each other: quick to see."""
        shorter, longer = sorted((self._literals[0], other._literals[0]), key=len)
        return not longer.startswith(shorter)


def _check_literals(template: str, literals: list[str]) -> None:
    if len(literals) == 1 and not set("{}") & set(template):
        raise ConfigurationError(f"{template!a} has no variable; add it as a resource instead")
    if any(set("{}") & set(literal) for literal in literals):
        raise ConfigurationError(f"{template!a} has a brace without its other half")
    if "" in literals[1:-1]:
        raise ConfigurationError(
            f"{template!a} has two variables side by side; put text between them, so that it is"
            " plain where one ends"
        )


def _check_variables(template: str, names: tuple[str, ...]) -> None:
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{template!a} has the expression {{{name!a}}}; only level 1 of RFC 6570 is"
                " supported, a name of letters, digits, _ and inner dots, without operator or"
                " modifier"
            )
    if len(set(names)) < len(names):
        raise ConfigurationError(f"{template!a} names a variable twice")


def _check_form(template: str) -> None:
    if ":" not in template.partition("{")[0]:
        raise ConfigurationError(f"{template!a} does not begin with a scheme, in plain text")
    try:
        check_uri(_EXPRESSION.sub("1", template))
    except ConfigurationError as problem:
        message = (
            f"{template!a} is no template of absolute URIs; with 1 for each variable: {problem}"
        )
        raise ConfigurationError(message) from None


def _characters(text: str) -> str:
    """Return text with every encoded byte as one character."""
    return _TRIPLET.sub(lambda hex_: chr(_BYTES + int(hex_[1], 16)), decode_unreserved(text))


def _decoded(value: str) -> str:
    return bytes(ord(each) % _BYTES for each in value).decode()


def _has_dot_segment(text: str) -> bool:
    path = text.partition(":")[2].partition("?")[0]
    return not {".", ".."}.isdisjoint(path.split("/"))


def _elements(literals: list[str]) -> list[str]:
    first, *others = literals
    elements = list(first)
    for literal in others:
        elements += [_ONE, _MORE, *literal]
    return elements


def _next_states(mine: list[str], theirs: list[str], i: int, j: int) -> list[tuple[int, int]]:
    states: list[tuple[int, int]] = []
    left = mine[i] if i < len(mine) else ""
    right = theirs[j] if j < len(theirs) else ""
    if left is _MORE:
        states.append((i + 1, j))
    if right is _MORE:
        states.append((i, j + 1))
    if left and right and _share_a_character(left, right):
        states.append((i + (left is not _MORE), j + (right is not _MORE)))
    return states


def _share_a_character(left: str, right: str) -> bool:
    if len(left) > 1:
        return len(right) > 1 or _VALUE.fullmatch(right) is not None
    return left == right if len(right) == 1 else _VALUE.fullmatch(left) is not None
