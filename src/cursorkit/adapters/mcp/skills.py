"""The Skills extension of MCP, `io.modelcontextprotocol/skills`, from a catalog of skills."""

from __future__ import annotations

import copy
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from mcp import MCPError
from mcp.server import CacheHint, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import authenticated_principal
from mcp.types import (
    INVALID_PARAMS,
    ListResourcesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from cursorkit.adapters.mcp.binder import (
    AuthEpoch,
    Bind,
    Context,
    Principal,
    refused,
    scopes_epoch,
)
from cursorkit.adapters.mcp.boundary import boundary
from cursorkit.adapters.mcp.handlers import list_handler
from cursorkit.adapters.mcp.hints import ttl_ms
from cursorkit.adapters.mcp.lists import LISTS, wire_form
from cursorkit.adapters.mcp.pager import DEFAULT_PAGE_SIZE, Visible
from cursorkit.adapters.mcp.reads import read_handler
from cursorkit.adapters.mcp.stamp import discovered_stamp
from cursorkit.catalogs.base import Entry, Skills, WireEntry
from cursorkit.catalogs.uris import normal_form
from cursorkit.errors import (
    ConfigurationError,
    NotFound,
    NotRegistered,
    SourceError,
)
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator, settled

__all__ = ["SkillPages", "SkillSelect", "SkillsExtension"]

SkillSelect: TypeAlias = Callable[
    [Context, Sequence[WireEntry]], Sequence[Entry] | Awaitable[Sequence[Entry]]
]
"""Chooses from the skills that the principal may see those to list, for one walk; keeps the order.
One variant of each skill, for example."""

SkillPages: TypeAlias = Callable[
    [Context, Sequence[WireEntry] | None, str | None], Page[Any] | Awaitable[Page[Any]]
]
"""Makes the pages of ``skills/list`` itself. Gets all skills of the walk for the first page, and
for a later one None and the cursor, which it made: it raises a `CursorError` if it did not."""

_log: Final = logging.getLogger("cursorkit")

_LIST: Final = LISTS["skills/list"]
_DIRECTORY: Final = LISTS["resources/directory/read"]
_READ: Final = "resources/read"

_MODERN_FIELDS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})

_MAX_SEGMENTS: Final = 64
"""Slashes in a URI up to which skills around it are looked for."""


class _ListParams(PaginatedRequestParams):
    # The SDK would refuse a cursor that is no text with another message than every other.
    cursor: Any = None


class _DirectoryParams(_ListParams):
    uri: str


class _GetParams(RequestParams):
    uri: str


class SkillsExtension(Extension):
    """Serves a catalog of skills: their list in pages, each by its URI, directories and files.

    On an `MCPServer` it is extension and middleware in one, as ``resources/read`` is the server's
    own, and what is no file of a skill goes on to it::

        skills = SkillsExtension(catalog, paginator, audience="skills")
        MCPServer("skills", extensions=[skills], middleware=[skills])

    On a low-level `Server`, call `install`. On FastMCP, `CursorPagination` pages the skills that
    FastMCP serves; this is not for it.

    Next to `CursorPagination` on one server, turn these lists off there:
    ``page_sizes={"skills/list": None, "resources/directory/read": None}``.

    A walk keeps the entries of its first page, whatever happens on disk; ``skills/get``,
    directories and files are as they are now. A client compares what it reads with the entry that
    it has, and gets the entry anew if they differ.

    Args:
        catalog: For example a `SkillCatalog`; its `page_size` and `cache_hint` apply.
        paginator: Cuts the pages. Its own `page_size` is not used.
        audience: As for `CursorPagination`, like all that is not listed here.
        principal: Whom cursors belong to.
        auth_epoch: What cursors die with.
        bind: Adds to the binding: a locale, if `select` goes by it.
        visible: Says of each skill whether it may be shown. Asked on every page of the list, and
            always as for that list, of a skill, and for a directory or file of the skills around
            it: one that is shown is enough.
        select: As `SkillSelect`; asked for a first page, and to heal a walk.
        pages: As `SkillPages`. It may return the catalog's own entries only, unaltered, at most 32
            a page and none twice, and on the first page in their order; else nothing is served.
        page_size: Skills a page, at most 32.
        directory_page_size: Items a page of a directory.
        max_page_bytes: The most bytes of items a page.

    Raises:
        ConfigurationError: If an argument is out of range.
    """

    identifier = "io.modelcontextprotocol/skills"

    def __init__(
        self,
        catalog: Skills,
        paginator: SnapshotPaginator,
        *,
        audience: str,
        principal: Principal | None = authenticated_principal,
        auth_epoch: AuthEpoch | None = scopes_epoch,
        bind: Bind | None = None,
        visible: Visible | None = None,
        select: SkillSelect | None = None,
        pages: SkillPages | None = None,
        page_size: int = _LIST.max_page_size,
        directory_page_size: int = DEFAULT_PAGE_SIZE,
        max_page_bytes: int | None = None,
    ) -> None:
        self._catalog = catalog
        self._clock = paginator.clock
        self._visible = visible
        self._select = select
        self._pages = pages
        self._stamp: dict[str, Any] | None = None
        self._reads_files = False
        personal = [each for each in (principal, auth_epoch, bind, visible, select, pages) if each]
        self._hint = _hint(catalog, personal)
        self._list = list_handler(
            _LIST.method,
            paginator,
            self._chosen,
            audience=audience,
            principal=principal,
            auth_epoch=auth_epoch,
            bind=bind,
            visible=visible,
            page_size=page_size if catalog.page_size is None else catalog.page_size,
            max_page_bytes=max_page_bytes,
            cache_hint=self._hint,
            source_version=None if select or catalog.version is None else self._version,
        )
        self._directory = list_handler(
            _DIRECTORY.method,
            paginator,
            self._children,
            audience=audience,
            principal=principal,
            auth_epoch=auth_epoch,
            bind=bind,
            page_size=directory_page_size,
            max_page_bytes=max_page_bytes,
        )
        self._not_found = read_handler([])

    def settings(self) -> dict[str, Any]:
        """Return what clients are told of the extension."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods of the extension."""
        return (
            MethodBinding(_LIST.method, _ListParams, self._list_skills),
            MethodBinding("skills/get", _GetParams, self._get_skill),
            MethodBinding(_DIRECTORY.method, _DirectoryParams, self._read_directory),
        )

    def install(self, server: Server[Any]) -> None:
        """Serve the skills from a low-level server, before it runs.

        A handler for ``resources/read`` that the server has already answers for what is no file of
        a skill; without ``resources/list`` it gets an empty one, which turns the capability on.

        Raises:
            ConfigurationError: If the server serves one of the extension's methods already.
        """
        methods = self.methods()
        for method in methods:
            if server.get_request_handler(method.method) is not None:
                raise ConfigurationError(
                    f"the server has a handler for {method.method} already; skills are served once"
                )
        for method in methods:
            server.add_request_handler(method.method, method.params_type, method.handler)
        below = server.get_request_handler(_READ)

        async def read(ctx: Context, params: ReadResourceRequestParams) -> Any:
            found = await self._file(ctx, str(params.uri))
            if found is not None:
                return found
            return await (self._not_found if below is None else below.handler)(ctx, params)

        server.add_request_handler(_READ, ReadResourceRequestParams, read)
        if server.get_request_handler("resources/list") is None:
            server.add_request_handler("resources/list", PaginatedRequestParams, _no_resources)
        server.extensions[self.identifier] = self.settings()
        self._reads_files = True

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer for the files of skills; pass on every other message untouched."""
        self._reads_files = True
        uri = (ctx.params or {}).get("uri")
        found = None
        if ctx.method == _READ and ctx.request_id is not None and type(uri) is str:
            found = await self._file(ctx, uri)
        if found is None:
            return await call_next(ctx)
        wire = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return {name: value for name, value in wire.items() if name not in _MODERN_FIELDS}
        if self._stamp is None:
            self._stamp = await discovered_stamp(ctx, call_next)
        return {**wire, "_meta": {**self._stamp, **wire.get("_meta", {})}}

    async def read(self, uri: str, context: Context) -> Any:
        """Return the contents of a file of a skill that may be shown.

        Raises:
            NotRegistered: If it is none of a skill's.
            NotFound: If a skill has no such file, or may not be shown.
        """
        normal = normal_form(uri)
        if normal is None:
            raise NotRegistered("it is no URI of a skill")
        await self._check_around(context, normal)
        return await self._catalog.read(normal, context)

    async def _list_skills(self, ctx: Context, params: _ListParams) -> Any:
        if not self._reads_files:
            self._reads_files = True
            _log.warning(
                "skills are listed, but their files cannot be read: give the SkillsExtension to"
                " MCPServer as middleware, too"
            )
        if self._pages is None:
            return await self._list(ctx, params)
        with boundary(_LIST.method) as here:
            cursor = params.cursor
            if cursor is None:
                offered = await self._chosen(ctx)
                with here.passes():
                    page = await settled(self._pages(ctx, copy.deepcopy(offered), None))
                skills = _own(_items(page), offered, in_order=True)
            else:
                if type(cursor) is not str:
                    raise refused("type", cursor, _LIST.method)
                page = await settled(self._pages(ctx, None, cursor))
                skills = _own(_items(page), await self._entries(ctx), in_order=False)
                skills = await self._shown(ctx, skills)
            wanted = self._hint.ttl_ms if cursor is None else 0
            members: dict[str, Any] = {_LIST.result_key: skills}
            if page.next_cursor is not None:
                members["nextCursor"] = page.next_cursor
            return members | self._fields(ctx, ttl_ms(wanted, page, self._clock))

    async def _get_skill(self, ctx: Context, params: _GetParams) -> dict[str, Any]:
        with boundary("skills/get") as here, here.passes():
            uri = normal_form(params.uri)
            try:
                if uri is None:
                    raise NotRegistered("it is no URI of a skill")
                entry = _wire(await self._catalog.get(uri, ctx))
            except NotFound:
                raise MCPError(INVALID_PARAMS, "Unknown skill") from None
            if not await self._shown(ctx, [entry]):
                raise MCPError(INVALID_PARAMS, "Unknown skill")
            return {"skill": entry, **self._fields(ctx, self._hint.ttl_ms)}

    async def _read_directory(self, ctx: Context, params: _DirectoryParams) -> Any:
        with boundary(_DIRECTORY.method) as here, here.passes():
            try:
                await self._check_around(ctx, normal_form(params.uri) or "")
            except NotFound:
                raise MCPError(INVALID_PARAMS, "Unknown directory") from None
        return await self._directory(ctx, params)

    async def _children(self, ctx: Context) -> Any:
        params = ctx.params or {}
        try:
            return await self._catalog.directory(normal_form(params["uri"]) or "", ctx)
        except NotFound:
            if params.get("cursor") is not None:
                # To heal a walk; what is gone has changed.
                return ()
            raise MCPError(INVALID_PARAMS, "Unknown directory") from None

    async def _file(self, ctx: Context, uri: str) -> ReadResourceResult | None:
        """Return the contents of a file, None if it is not this catalog's to answer."""
        with boundary(_READ) as here, here.passes():
            try:
                found = await self.read(uri, ctx)
            except NotRegistered:
                return None
            except NotFound:
                # It raises, with the code of the request's revision.
                found = await self._not_found(ctx, ReadResourceRequestParams(uri=uri))
            if isinstance(found, ReadResourceResult):
                return found
            return ReadResourceResult.model_validate(found, by_name=False)

    async def _version(self) -> str:
        version: Any = self._catalog.version
        if callable(version):
            version = await settled(cast("Any", version()))
        return cast("str", version)

    async def _entries(self, ctx: Context) -> list[WireEntry]:
        found: Any = await settled(self._catalog.entries(ctx))
        if isinstance(found, AsyncIterable):
            return [_wire(entry) async for entry in cast("AsyncIterable[Entry]", found)]
        return [_wire(entry) for entry in found]

    async def _chosen(self, ctx: Context) -> list[WireEntry]:
        """Return the skills of a walk that begins now."""
        entries = await self._entries(ctx)
        if self._pages is not None or self._select is not None:
            entries = await self._shown(ctx, entries)
        if self._select is None:
            return entries
        chosen = await settled(self._select(ctx, copy.deepcopy(entries)))
        return _own(chosen, entries, in_order=True)

    async def _shown(self, ctx: Context, entries: list[WireEntry]) -> list[WireEntry]:
        if self._visible is None or not entries:
            return entries
        # One question, whoever asks: who answers by method has not to know of the others.
        asked = replace(ctx, method=_LIST.method)
        try:
            answers = list(await settled(self._visible(asked, entries)))
        except MCPError as error:
            # It would pass as the catalog's own word.
            raise SourceError("visible raised an error instead of an answer") from error
        if len(answers) != len(entries) or not all(type(answer) is bool for answer in answers):
            raise SourceError(
                f"visible must answer with one bool for each of the {len(entries)} items it was"
                " given"
            )
        return [entry for entry, answer in zip(entries, answers, strict=True) if answer]

    async def _check_around(self, ctx: Context, uri: str) -> None:
        """Raise `NotFound` if there are skills around a file or directory, and none is shown."""
        if self._visible is None:
            return
        segments = uri.partition("?")[0].split("/")
        if len(segments) > _MAX_SEGMENTS:
            raise NotRegistered("no skill is so deep")
        around: list[WireEntry] = []
        for end in range(1, len(segments) + 1):
            try:
                found = await self._catalog.get("/".join([*segments[:end], "SKILL.md"]), ctx)
            except NotFound:
                continue
            around.append(_wire(found))
        if around and not await self._shown(ctx, around):
            raise NotFound("the skill may not be shown")

    def _fields(self, ctx: Context, ttl: int) -> dict[str, Any]:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return {}
        return {"resultType": "complete", "ttlMs": ttl, "cacheScope": self._hint.scope}


def _hint(catalog: Skills, personal: Sequence[object]) -> CacheHint:
    hint = catalog.cache_hint
    if hint is None:
        return CacheHint()
    return CacheHint(ttl_ms=hint.ttl_ms, scope="private" if personal else hint.scope)


def _wire(entry: Entry) -> WireEntry:
    wire = wire_form(entry)
    if wire is None or type(wire.get("uri")) is not str:
        raise SourceError("a skill is a model or a mapping with a text as uri")
    return wire


def _own(given: Sequence[Entry], own: Sequence[WireEntry], *, in_order: bool) -> list[WireEntry]:
    """Return those of the catalog's own entries that were given.

    Raises:
        SourceError: If they are not its own, come twice, or are out of order.
    """
    numbers = {entry["uri"]: number for number, entry in enumerate(own)}
    if len(numbers) < len(own):
        raise SourceError("two skills of the catalog have one URI")
    chosen: list[int] = []
    for entry in given:
        wire = _wire(entry)
        number = numbers.get(wire["uri"])
        if number is None or wire != own[number]:
            raise SourceError("a skill was given to list that is not the catalog's own")
        chosen.append(number)
    if len(set(chosen)) < len(chosen):
        raise SourceError("a skill was given twice on one page")
    if in_order and chosen != sorted(chosen):
        raise SourceError("skills were given in another order than the catalog's")
    return [own[number] for number in chosen]


def _items(page: Page[Any]) -> list[Any]:
    if not isinstance(page, Page):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise SourceError(f"pages returned a {type(page).__name__}, not a Page")
    if len(page.items) > _LIST.max_page_size:
        raise SourceError(f"pages returned more than {_LIST.max_page_size} skills")
    cursor = page.next_cursor
    if cursor is not None and (type(cursor) is not str or not cursor):
        raise SourceError("pages returned a cursor that is no text, or empty")
    return page.items


async def _no_resources(ctx: Context, params: object) -> ListResourcesResult:
    return ListResourcesResult(resources=[])
