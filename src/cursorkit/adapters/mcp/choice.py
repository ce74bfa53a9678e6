"""Which catalog serves which list."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from cursorkit.catalogs import CompositeResources, Prompts, Resources, Skills, Tools
from cursorkit.errors import ConfigurationError

__all__ = ["AnyCatalog", "chosen_catalogs"]

_log: Final = logging.getLogger("cursorkit")

AnyCatalog: TypeAlias = Tools | Prompts | Resources | Skills | CompositeResources
"""A catalog of cursorkit, or one of your own by its protocol."""

_READ_SIDES: Final[Mapping[str, str]] = {
    "tools/list": "call",
    "prompts/list": "get",
    "resources/list": "read",
    "resources/templates/list": "read",
    "skills/list": "directory",
}
"""The lists that can be served, and the method that a catalog of each has to have."""


def chosen_catalogs(catalogs: Iterable[AnyCatalog]) -> dict[str, Any]:
    """Return the catalog of each list. One of the user's own is chosen before one of cursorkit's.

    Raises:
        ConfigurationError: If a catalog is none, or two of one kind serve one list.
    """
    chosen: dict[str, Any] = {}
    for catalog in _flat(catalogs):
        method, other = _method_of(catalog), chosen.get(catalog.method)
        if other is None:
            chosen[method] = catalog
            continue
        if _is_built_in(catalog) == _is_built_in(other):
            raise ConfigurationError(
                f"{type(other).__name__} and {type(catalog).__name__} both serve {method};"
                " give one catalog for each list"
            )
        own, built_in = (other, catalog) if _is_built_in(catalog) else (catalog, other)
        chosen[method] = own
        _log.warning(
            "%s is served from %s; the %s that was given for it too is not used",
            method,
            type(own).__name__,
            type(built_in).__name__,
        )
    return chosen


def _flat(catalogs: Iterable[AnyCatalog]) -> Iterator[Any]:
    for catalog in catalogs:
        if isinstance(catalog, CompositeResources):
            yield from (catalog.resources, catalog.templates)
        else:
            yield catalog


def _method_of(catalog: Any) -> str:
    """Return the list of a catalog.

    Raises:
        ConfigurationError: If it has none that is known here, or lacks the read side of its list.
    """
    method = getattr(catalog, "method", None)
    side = _READ_SIDES.get(method) if isinstance(method, str) else None
    if not isinstance(method, str) or side is None or not callable(getattr(catalog, side, None)):
        raise ConfigurationError(
            f"a {type(catalog).__name__} is no catalog of one of {', '.join(_READ_SIDES)}: it needs"
            " what the protocols Tools, Prompts, Resources and Skills of cursorkit.catalogs say"
        )
    return method


def _is_built_in(catalog: object) -> bool:
    return type(catalog).__module__.partition(".")[0] == "cursorkit"
