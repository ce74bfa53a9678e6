"""Catalogs keep their order, say when they change, and answer for what they list."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

import pytest
from mcp.server import CacheHint
from mcp.types import Prompt, Resource, ResourceTemplate, Tool

from cursorkit import (
    Binding,
    ConfigurationError,
    Key,
    KeyRing,
    MemoryStore,
    NotFound,
    NotRegistered,
    SignedCodec,
    SnapshotPaginator,
    SourceError,
)
from cursorkit.catalogs import (
    CompositeResources,
    Listeners,
    PromptCatalog,
    Prompts,
    ResourceCatalog,
    Resources,
    ResourceTemplateCatalog,
    ToolCatalog,
    Tools,
)
from cursorkit.walk import all_items

AnyCatalog: TypeAlias = ToolCatalog | PromptCatalog | ResourceCatalog | ResourceTemplateCatalog

CATALOGS: list[tuple[type[AnyCatalog], str, Callable[[str], str]]] = [
    (ToolCatalog, "name", lambda word: word),
    (PromptCatalog, "name", lambda word: word),
    (ResourceCatalog, "uri", lambda word: f"test://{word}/"),
    (ResourceTemplateCatalog, "uriTemplate", lambda word: f"test://{word}/{{x}}"),
]


def nothing(*args: Any) -> None:
    """Answer with None, whatever the kind of catalog."""
    del args


class Case:
    """A catalog under test, with entries whose names are words."""

    def __init__(
        self, kind: type[AnyCatalog], key: str, name: Callable[[str], str], **options: Any
    ) -> None:
        self.catalog: Any = kind(**options)
        self.key = key
        self.name = name

    def add(self, word: str, title: str | None = None) -> None:
        entry = {self.key: self.name(word), "name": word, "title": title or word}
        self.catalog.add(entry, nothing)

    def titles(self) -> list[str]:
        return [entry["title"] for entry in self.catalog.entries()]


@pytest.fixture(params=CATALOGS, ids=lambda row: row[0].__name__)
def case(request: pytest.FixtureRequest) -> Case:
    """Run a test over every kind of catalog."""
    return Case(*request.param)


def test_entries_keep_their_order(case: Case) -> None:
    """Entries stand in the order in which they came, not in that of their names."""
    for word in ("b", "a", "c"):
        case.add(word)
    assert case.titles() == ["b", "a", "c"]
    assert len(case.catalog) == 3


def test_adding_again_replaces_in_place(case: Case) -> None:
    """An entry of the same name takes the place of the old one, and its position."""
    for word in ("a", "b", "c"):
        case.add(word)
    case.add("b", "new b")
    assert case.titles() == ["a", "new b", "c"]
    assert case.catalog.find(case.name("b"))["title"] == "new b"


def test_remove_says_whether_it_was_there(case: Case) -> None:
    """`remove` returns True once; what comes again afterwards goes to the end."""
    for word in ("a", "b"):
        case.add(word)
    assert case.catalog.remove(case.name("a")) is True
    assert case.catalog.remove(case.name("a")) is False
    assert case.catalog.find(case.name("a")) is None
    case.add("a")
    assert case.titles() == ["b", "a"]


def test_listeners_are_called_once_in_order_and_at_once(case: Case) -> None:
    """Each change calls each listener once, when the list has changed; no change calls none."""
    seen: list[tuple[int, list[str]]] = []
    for number in (1, 2):
        case.catalog.on_list_changed(lambda number=number: seen.append((number, case.titles())))
    case.add("a")
    assert seen == [(1, ["a"]), (2, ["a"])]
    seen.clear()
    case.add("a", "new")
    case.catalog.remove(case.name("a"))
    assert seen == [(1, ["new"]), (2, ["new"]), (1, []), (2, [])]
    seen.clear()
    case.catalog.remove(case.name("a"))
    case.catalog.entries()
    assert seen == []


def test_unsubscribing_ends_one_subscription(case: Case) -> None:
    """A callback added twice is called once after an unsubscribe, which may be called again."""
    calls: list[int] = []
    first = case.catalog.on_list_changed(lambda: calls.append(1))
    second = case.catalog.on_list_changed(lambda: calls.append(1))
    first()
    first()
    case.add("a")
    assert calls == [1]
    second()
    case.add("b")
    assert calls == [1]


def test_a_listener_may_unsubscribe_another_while_it_is_called() -> None:
    """Who is unsubscribed before their turn is not called, nor who comes meanwhile."""
    listeners = Listeners()
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        end()
        listeners.subscribe(lambda: calls.append("late"))

    listeners.subscribe(first)
    end = listeners.subscribe(lambda: calls.append("second"))
    listeners.notify()
    assert calls == ["first"]


def test_a_listener_that_fails_stops_nobody(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    """The change is made, the others are called, and the failure is in the log."""
    calls: list[str] = []

    def fail() -> None:
        raise RuntimeError

    case.catalog.on_list_changed(fail)
    case.catalog.on_list_changed(lambda: calls.append("called"))
    case.add("a")
    assert (case.titles(), calls) == (["a"], ["called"])
    assert [record.name for record in caplog.records] == ["cursorkit"]


def test_the_version_changes_with_the_list_and_never_comes_back(case: Case) -> None:
    """Every change gives a version that was never there; reading gives the same one."""
    versions = [case.catalog.version]
    for change in (
        lambda: case.add("a"),
        lambda: case.add("a"),
        lambda: case.add("a", "new"),
        lambda: case.catalog.remove(case.name("a")),
        lambda: case.add("a"),
    ):
        change()
        versions.append(case.catalog.version)
    assert len(set(versions)) == len(versions)
    case.catalog.remove(case.name("no such"))
    assert (case.catalog.entries(), case.catalog.version)[1] == versions[-1]
    assert all(type(version) is str and 0 < len(version) <= 256 for version in versions)


def test_no_two_catalogs_have_one_version() -> None:
    """A catalog that is made anew, as after a restart, is not taken for the old one."""
    assert len({kind().version for kind, _, _ in CATALOGS * 5}) == 20


@pytest.mark.parametrize("entry", [{}, {"name": 1}, {"name": ""}, {"title": "x"}, {"name": None}])
def test_an_entry_without_a_name_is_refused(case: Case, entry: dict[str, Any]) -> None:
    """An entry needs a text as its name, URI or template; nothing changes otherwise."""
    calls: list[int] = []
    case.catalog.on_list_changed(lambda: calls.append(1))
    version = case.catalog.version
    entry = {case.key if key == "name" else key: value for key, value in entry.items()}
    with pytest.raises(ConfigurationError, match=case.key):
        case.catalog.add(entry, nothing)
    assert (len(case.catalog), calls, case.catalog.version) == (0, [], version)


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, b"x", "\ud800"])
def test_an_entry_that_is_no_json_is_refused(case: Case, value: object) -> None:
    """What cannot go on the wire is refused when it is added, not when it is listed."""
    with pytest.raises(SourceError):
        case.catalog.add({case.key: case.name("a"), "meta": value}, nothing)
    assert len(case.catalog) == 0


def test_a_copy_is_kept(case: Case) -> None:
    """Whoever changes their entry after adding it changes nothing here."""
    entry: dict[str, Any] = {case.key: case.name("a"), "nested": {"list": [1, 2**64, None]}}
    case.catalog.add(entry, nothing)
    entry["nested"]["list"].append(3)
    entry["more"] = 1
    kept = {case.key: case.name("a"), "nested": {"list": [1, 2**64, None]}}
    assert case.catalog.entries() == [kept]
    case.catalog.entries().clear()
    assert case.catalog.entries() == [kept]


def test_models_are_kept_as_they_go_on_the_wire() -> None:
    """A model is dumped by alias, without its absent members; null in a schema stays."""
    schema = {"type": "object", "properties": {"x": {"default": None}}}
    tools, prompts = ToolCatalog(), PromptCatalog()
    resources, templates = ResourceCatalog(), ResourceTemplateCatalog()
    tools.add(Tool(name="a", input_schema=schema), nothing)
    prompts.add(Prompt(name="a", title="A"), nothing)
    resources.add(Resource(name="a", uri="x://a", mime_type="text/plain"), nothing)
    templates.add(ResourceTemplate(name="a", uri_template="x://{a}"), nothing)
    assert tools.entries() == [{"name": "a", "inputSchema": schema}]
    assert prompts.entries() == [{"name": "a", "title": "A"}]
    assert resources.entries() == [{"name": "a", "uri": "x://a", "mimeType": "text/plain"}]
    assert templates.entries() == [{"name": "a", "uriTemplate": "x://{a}"}]


@pytest.mark.parametrize("row", CATALOGS, ids=lambda row: row[0].__name__)
def test_settings_of_its_own_are_kept(row: tuple[Any, Any, Any]) -> None:
    """A catalog carries its page size and cache hint, and none unless they are given."""
    hint = CacheHint(ttl_ms=1000, scope="public")
    own = Case(*row, page_size=10_000, cache_hint=hint).catalog
    assert (own.page_size, own.cache_hint) == (10_000, hint)
    shared = Case(*row).catalog
    assert (shared.page_size, shared.cache_hint) == (None, None)


@pytest.mark.parametrize("size", [0, -1, 10_001, True, 1.0, "1"])
def test_a_page_size_that_cannot_work_is_refused(size: Any) -> None:
    """A page has 1 to 10,000 items."""
    with pytest.raises(ConfigurationError, match="page_size"):
        ToolCatalog(page_size=size)


def test_each_catalog_names_its_list() -> None:
    """The four catalogs feed the four lists of MCP."""
    assert [kind.method for kind, _, _ in CATALOGS] == [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ]


@pytest.mark.both_backends
@pytest.mark.anyio
async def test_handlers_get_arguments_and_context() -> None:
    """Sync and async handlers answer, with what the caller gave them; the newest one answers."""

    async def later(arguments: Mapping[str, Any], context: Any) -> tuple[Any, ...]:
        return ("async", dict(arguments), context)

    tools, prompts = ToolCatalog(), PromptCatalog()
    tools.add({"name": "a"}, lambda arguments, context: ("sync", dict(arguments), context))
    prompts.add({"name": "a"}, later)
    assert await tools.call("a", {"x": 1}, "ctx") == ("sync", {"x": 1}, "ctx")
    assert await prompts.get("a", {"x": "1"}, "ctx") == ("async", {"x": "1"}, "ctx")
    tools.add({"name": "a"}, later)
    assert await tools.call("a", {}) == ("async", {}, None)


@pytest.mark.anyio
async def test_a_name_that_is_not_there_is_not_registered() -> None:
    """Unknown and removed names raise `NotRegistered`, without the name in the message."""
    tools, prompts = ToolCatalog(), PromptCatalog()
    tools.add({"name": "gone"}, nothing)
    tools.remove("gone")
    for answer in (tools.call("gone", {}), prompts.get("gone", {})):
        with pytest.raises(NotRegistered) as caught:
            await answer
        assert "gone" not in str(caught.value)


@pytest.mark.anyio
async def test_errors_of_handlers_pass_through() -> None:
    """What a handler raises is the caller's to see."""

    def fail(arguments: Mapping[str, Any], context: Any) -> None:
        raise LookupError("told")

    tools = ToolCatalog()
    tools.add({"name": "a"}, fail)
    with pytest.raises(LookupError, match="told"):
        await tools.call("a", {})


@pytest.mark.parametrize(
    "uri", ["a", "x:", "HTTP://a/", "http://a", "file:///a/../b", "file:///é", "x://a#b"]
)
def test_a_resource_has_a_normal_absolute_uri(uri: str) -> None:
    """A resource whose URI is relative, not ASCII, or another spelling of one, is refused."""
    with pytest.raises(ConfigurationError):
        ResourceCatalog().add({"uri": uri}, nothing)


def test_an_equivalent_duplicate_is_refused() -> None:
    """One resource cannot be added twice under spellings that RFC 3986 holds equal."""
    resources = ResourceCatalog()
    resources.add({"uri": "http://example.com/~a"}, nothing)
    for spelling in (
        "http://EXAMPLE.com/~a",
        "http://example.com:80/~a",
        "http://example.com/%7Ea",
        "http://example.com/b/../~a",
    ):
        with pytest.raises(ConfigurationError, match=r"give 'http://example\.com/~a'"):
            resources.add({"uri": spelling}, nothing)
    assert len(resources) == 1


def test_an_ipv6_zone_identifier_is_refused() -> None:
    """A zone means something on one machine only, so no resource and no template has one."""
    with pytest.raises(ConfigurationError, match="zone"):
        ResourceCatalog().add({"uri": "http://[fe80::1%25eth0]/"}, nothing)
    with pytest.raises(ConfigurationError, match="zone"):
        ResourceTemplateCatalog().add({"uriTemplate": "http://[fe80::1%25eth0]/{a}"}, nothing)


@pytest.mark.anyio
async def test_a_resource_is_read_in_any_spelling() -> None:
    """The reader gets the URI as it is listed, and the context."""
    resources = ResourceCatalog()
    resources.add({"uri": "http://example.com/~a"}, lambda uri, context: (uri, context))
    for spelling in ("http://example.com/~a", "HTTP://example.com:80/./%7ea"):
        assert await resources.read(spelling, 1) == ("http://example.com/~a", 1)
    for other in ("http://example.com/~b", "", "no uri", "x", "http://example.com/~a#b"):
        with pytest.raises(NotRegistered):
            await resources.read(other)


@pytest.mark.anyio
async def test_a_template_reads_with_its_variables() -> None:
    """The reader gets the URI as it was sent, the decoded variables, and the context."""

    async def read(uri: str, variables: Mapping[str, str], context: Any) -> tuple[Any, ...]:
        return uri, dict(variables), context

    templates = ResourceTemplateCatalog()
    templates.add({"uriTemplate": "x://one/{a}"}, nothing)
    templates.add({"uriTemplate": "x://two/{a}/{b}"}, read)
    uri = "x://two/1%2F2/%2541"
    assert await templates.read(uri, "ctx") == (uri, {"a": "1/2", "b": "%41"}, "ctx")
    with pytest.raises(NotRegistered):
        await templates.read("x://two/1")


def test_overlapping_templates_are_refused() -> None:
    """A template that shares a URI with another is refused, and changes nothing."""
    templates = ResourceTemplateCatalog()
    templates.add({"uriTemplate": "x://{a}/b", "title": "old"}, nothing)
    version = templates.version
    for overlapping in ("x://{b}/b", "x://a/{b}"):
        with pytest.raises(ConfigurationError, match="overlaps"):
            templates.add({"uriTemplate": overlapping}, nothing)
    assert (len(templates), templates.version) == (1, version)
    templates.add({"uriTemplate": "x://{a}/b", "title": "new"}, nothing)
    assert templates.entries() == [{"uriTemplate": "x://{a}/b", "title": "new"}]
    templates.remove("x://{a}/b")
    templates.add({"uriTemplate": "x://a/{b}"}, nothing)


def composite() -> tuple[ResourceCatalog, ResourceTemplateCatalog, CompositeResources]:
    """Return a composite of an exact resource and a template that covers it."""
    resources, templates = ResourceCatalog(), ResourceTemplateCatalog()
    resources.add({"uri": "x://h/~exact"}, lambda uri, context: "exact")
    templates.add({"uriTemplate": "x://h/{a}"}, lambda uri, variables, context: "template")
    return resources, templates, CompositeResources(resources, templates)


@pytest.mark.both_backends
@pytest.mark.anyio
async def test_exact_uris_come_before_templates() -> None:
    """The exact resource answers, in every spelling of it; the template answers for the rest."""
    resources, _, both = composite()
    assert await both.read("x://h/~exact") == "exact"
    assert await both.read("X://H/%7Eexact") == "exact"
    assert await both.read("x://h/%7eexact") == "exact"
    assert await both.read("x://h/other") == "template"
    resources.remove("x://h/~exact")
    assert await both.read("x://h/~exact") == "template"
    with pytest.raises(NotRegistered):
        await both.read("x://other/a")


@pytest.mark.anyio
async def test_only_not_registered_falls_through() -> None:
    """`NotFound` from an exact resource is final, `NotRegistered` asks the templates."""

    def missing(uri: str, context: Any) -> None:
        raise NotFound

    def elsewhere(uri: str, context: Any) -> None:
        raise NotRegistered

    resources, _, both = composite()
    resources.add({"uri": "x://h/missing"}, missing)
    resources.add({"uri": "x://h/elsewhere"}, elsewhere)
    with pytest.raises(NotFound) as caught:
        await both.read("x://h/missing")
    assert not isinstance(caught.value, NotRegistered)
    assert await both.read("x://h/elsewhere") == "template"


def test_a_composite_forwards_the_changes_of_both() -> None:
    """A listener of the composite hears of each change of either, until it unsubscribes."""
    resources, templates, both = composite()
    calls: list[int] = []
    end = both.on_list_changed(lambda: calls.append(1))
    resources.remove("x://h/~exact")
    templates.remove("x://h/{a}")
    assert calls == [1, 1]
    end()
    end()
    resources.add({"uri": "x://h/new"}, nothing)
    templates.add({"uriTemplate": "x://h/{a}"}, nothing)
    assert calls == [1, 1]


class Shelf:
    """A catalog of a user's own: rows of a database, changed by others, seen by some."""

    method = "resources/list"
    page_size = 7
    cache_hint = None

    def __init__(self) -> None:
        self.rows = {"book://a/1": "alice", "book://a/2": "bob"}
        self.listeners = Listeners()

    async def version(self) -> str:
        return str(hash(tuple(self.rows.items())))

    async def entries(self, context: Any) -> AsyncIterator[dict[str, Any]]:
        for uri, reader in self.rows.items():
            if reader == context:
                yield {"uri": uri}

    async def read(self, uri: str, context: Any) -> str:
        if uri not in self.rows:
            raise NotRegistered
        if self.rows[uri] != context:
            raise NotFound
        return f"contents of {uri}"

    def on_list_changed(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self.listeners.subscribe(callback)


@pytest.mark.anyio
async def test_a_catalog_of_ones_own_takes_part() -> None:
    """Whatever implements the protocol is read by a composite, and reports changes of others."""
    shelf = Shelf()
    both = CompositeResources(shelf, ResourceTemplateCatalog())
    assert await both.read("book://a/1", "alice") == "contents of book://a/1"
    with pytest.raises(NotFound):
        await both.read("book://a/1", "bob")
    calls: list[int] = []
    both.on_list_changed(lambda: calls.append(1))
    shelf.listeners.notify()
    assert calls == [1]


def test_the_built_in_catalogs_are_catalogs() -> None:
    """Each built-in catalog, and one of a user's own, is one of the protocols to a type checker."""
    tools: Tools = ToolCatalog()
    prompts: Prompts = PromptCatalog()
    readable: list[Resources] = [ResourceCatalog(), ResourceTemplateCatalog(), Shelf()]
    assert [each.method for each in (tools, prompts, *readable)] == [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/list",
    ]


@pytest.mark.both_backends
@pytest.mark.anyio
async def test_a_catalog_is_paged_from_its_first_view() -> None:
    """A walk is the list of its first page, whatever is added, replaced and removed meanwhile."""
    tools = ToolCatalog()
    for number in range(7):
        tools.add({"name": str(number)}, nothing)
    paginator = SnapshotPaginator(SignedCodec(KeyRing(Key.generate())), MemoryStore(), page_size=2)
    binding = Binding("tools/list")
    changes: list[Callable[[], object]] = [
        lambda: tools.remove("2"),
        lambda: tools.add({"name": "4", "title": "new"}, nothing),
        lambda: tools.add({"name": "7"}, nothing),
    ]

    async def fetch(cursor: str | None) -> Any:
        page = await paginator.page(
            cursor, tools.entries, binding, source_version=lambda: tools.version
        )
        if changes:
            changes.pop(0)()
        return page

    assert await all_items(fetch) == [{"name": str(number)} for number in range(7)]
    assert await all_items(fetch) == tools.entries()


def test_changes_in_many_threads_lose_nothing() -> None:
    """Threads that add, remove and list at once leave just what was added and not removed."""
    tools = ToolCatalog()
    calls: list[None] = []
    tools.on_list_changed(lambda: calls.append(None))

    def work(thread: int) -> None:
        for number in range(100):
            tools.add({"name": f"{thread}-{number}"}, nothing)
            assert tools.entries()
            if number % 2:
                assert tools.remove(f"{thread}-{number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [entry["name"] for entry in tools.entries()]
    for number in range(4):
        mine = [name for name in left if name.startswith(f"{number}-")]
        assert mine == [f"{number}-{even}" for even in range(0, 100, 2)]
    assert len(calls) == 4 * (100 + 50)
