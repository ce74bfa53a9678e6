"""Resources by exact URI, by template, and both together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cursorkit.catalogs.base import Entry, Registry, Resources, Unsubscribe
from cursorkit.catalogs.templates import UriTemplate
from cursorkit.catalogs.uris import check_uri, normal_form
from cursorkit.errors import ConfigurationError, NotRegistered

__all__ = [
    "CompositeResources",
    "Reader",
    "ResourceCatalog",
    "ResourceTemplateCatalog",
    "TemplateReader",
]

Reader: TypeAlias = Callable[[str, Any], Any]
"""Gets the URI and the host's context of the request; returns the contents, or awaits them."""

TemplateReader: TypeAlias = Callable[[str, Mapping[str, str], Any], Any]
"""Gets the URI, the template's variables, and the host's context of the request."""


class ResourceCatalog(Registry[Reader]):
    """An ordered catalog of resources, each by its exact URI."""

    method = "resources/list"
    _name_key = "uri"

    def add(self, entry: Entry, reader: Reader) -> None:
        """Add a resource at the end, or replace that of the same URI where it stands.

        Args:
            entry: As it goes on the wire, or a model that dumps to that; a copy is kept.
            reader: Reads it, sync or async. `NotFound` from it is final; `NotRegistered` lets a
                composite ask its templates.

        Raises:
            ConfigurationError: If its URI is not absolute, ASCII and in normal form, so that no
                two entries can name one resource; or has an IPv6 zone identifier or a fragment.
            SourceError: If it is not JSON.
        """
        wire = self._wire(entry)
        check_uri(wire["uri"])
        self._put(wire, reader)

    async def read(self, uri: str, context: Any = None) -> Any:
        """Return what the reader of a URI, in any spelling of it, returns.

        Raises:
            NotRegistered: If there is no such resource.
        """
        name = normal_form(uri) or ""
        contents = self._handler(name)(name, context)
        return await contents if inspect.isawaitable(contents) else contents


@dataclass(frozen=True, slots=True)
class _Route:
    template: UriTemplate
    reader: TemplateReader


class ResourceTemplateCatalog(Registry[_Route]):
    """An ordered catalog of resource templates (RFC 6570 level 1); no two overlap."""

    method = "resources/templates/list"
    _name_key = "uriTemplate"

    def add(self, entry: Entry, reader: TemplateReader) -> None:
        """Add a template at the end, or replace the same template where it stands.

        Args:
            entry: As it goes on the wire, or a model that dumps to that; a copy is kept.
            reader: Reads what the template matches, sync or async. `NotFound` from it is final.

        Raises:
            ConfigurationError: If `UriTemplate` refuses it, or another template of the catalog
                matches some of the URIs that it matches.
            SourceError: If it is not JSON.
        """
        wire = self._wire(entry)
        self._put(wire, _Route(UriTemplate(wire["uriTemplate"]), reader))

    async def read(self, uri: str, context: Any = None) -> Any:
        """Return what the reader of the template that matches a URI returns.

        Raises:
            NotRegistered: If no template matches.
        """
        for route in self._handlers():
            variables = route.template.match(uri)
            if variables is not None:
                contents = route.reader(uri, variables, context)
                return await contents if inspect.isawaitable(contents) else contents
        raise NotRegistered("no template matches")

    def _check(self, name: str, handler: _Route) -> None:
        for other, (_, route) in self._rows.items():
            if other != name and route.template.overlaps(handler.template):
                raise ConfigurationError(
                    f"{name!a} overlaps {other!a}: some URIs match both; remove one of them, or"
                    " tell them apart by a segment of plain text"
                )


class CompositeResources:
    """Resources and resource templates, read together: exact URIs first, then templates.

    Args:
        resources: Asked first.
        templates: Asked where `resources` raises `NotRegistered`, and only then.
    """

    def __init__(self, resources: Resources, templates: Resources) -> None:
        self.resources = resources
        self.templates = templates

    async def read(self, uri: str, context: Any = None) -> Any:
        """Return the contents of a URI.

        Raises:
            NotRegistered: If neither knows of it.
            NotFound: If the one that answers for it has nothing.
        """
        try:
            return await self.resources.read(uri, context)
        except NotRegistered:
            pass
        return await self.templates.read(uri, context)

    def on_list_changed(self, callback: Callable[[], None]) -> Unsubscribe:
        """Have `callback` called after each change of either."""
        ends = [each.on_list_changed(callback) for each in (self.resources, self.templates)]

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe
