"""One table of hosts: the same six lists in each, that change whenever their tool is called.

``python -m tests.hosts_table HOST`` serves one on stdin and stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import anyio
from mcp import types
from mcp.server import MCPServer, Server
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette

from cursorkit import NotFound, NotRegistered
from cursorkit.adapters.mcp import CursorPagination, SkillsExtension, serve
from cursorkit.catalogs import (
    CompositeResources,
    Listeners,
    PromptCatalog,
    ResourceCatalog,
    ResourceTemplateCatalog,
    ToolCatalog,
)
from tests.mcp_kit import new_paginator

MEMBERS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "skills/list": "skills",
    "resources/directory/read": "resources",
}
"""The lists, and the members of their results."""

PAGE_SIZE: Final = 3
LENGTH: Final = 7
DIRECTORY: Final = "skill://all"

OPTIONS: Final[dict[str, Any]] = {"audience": "demo", "page_size": PAGE_SIZE}

CHANGE: Final = types.Tool(
    name="change", description="Change every list.", input_schema={"type": "object"}
)


def numbered(number: int) -> str:
    """Return the name of an entry."""
    return f"n{number:04}"


def tool_of(name: str) -> types.Tool:
    """Return a tool about as large as real ones are."""
    described = {"type": "string", "description": "What to look for, in words of your own. " * 3}
    schema = {"type": "object", "properties": dict.fromkeys(("query", "scope"), described)}
    return types.Tool(
        name=name, title=name.title(), description=f"Search {name}.", input_schema=schema
    )


def resource_of(name: str) -> types.Resource:
    """Return a resource."""
    return types.Resource(name=name, uri=f"data://{name}")


def template_of(name: str) -> types.ResourceTemplate:
    """Return a resource template."""
    return types.ResourceTemplate(name=name, uri_template=f"data://{name}/{{text}}")


def prompt_of(name: str) -> types.Prompt:
    """Return a prompt."""
    return types.Prompt(name=name, description=f"Ask for {name}.")


def skill_of(name: str) -> dict[str, Any]:
    """Return an entry of `skills/list`."""
    front = {"name": name, "description": f"Does {name}."}
    return {"uri": f"skill://{name}/SKILL.md", "frontmatter": front, "resources": "dynamic"}


def child_of(name: str) -> dict[str, Any]:
    """Return an entry of a directory."""
    return {"uri": f"{DIRECTORY}/{name}", "name": name}


def expected(method: str, generation: int) -> list[str]:
    """Return the names in a list after so many changes."""
    found = [numbered(number) for number in range(generation, generation + LENGTH)]
    return ["change", *found] if method == "tools/list" else found


class State:
    """The names in every list: a change drops the first, and adds one at the end."""

    def __init__(self) -> None:
        self.generation = 0
        self._listeners = Listeners()
        self.on_list_changed = self._listeners.subscribe

    @property
    def names(self) -> list[str]:
        """The names, in their order."""
        return expected("", self.generation)

    def change(self) -> str:
        """Change every list, and return how often that has been done."""
        self.generation += 1
        self._listeners.notify()
        return str(self.generation)


class StateSkills:
    """A catalog of skills."""

    method = "skills/list"
    page_size = None
    cache_hint = None
    version = None

    def __init__(self, state: State) -> None:
        self._state = state
        self.on_list_changed = state.on_list_changed

    def entries(self, context: Any) -> list[dict[str, Any]]:
        """Return all skills."""
        return [skill_of(name) for name in self._state.names]

    async def get(self, uri: str, context: Any) -> dict[str, Any]:
        """Return one."""
        for entry in self.entries(context):
            if entry["uri"] == uri:
                return entry
        raise NotRegistered("no such skill")

    async def directory(self, uri: str, context: Any) -> list[dict[str, Any]]:
        """Return what is in the one directory."""
        if uri != DIRECTORY:
            raise NotFound("no such directory")
        return [child_of(name) for name in self._state.names]

    async def read(self, uri: str, context: Any) -> Any:
        """Know of no file."""
        raise NotRegistered("no such file")


# MCPServer: the middleware, and the skills as an extension.


class _MCPServer(MCPServer):
    state: State

    async def list_tools(self) -> list[types.Tool]:
        return [CHANGE, *map(tool_of, self.state.names)]

    async def list_resources(self) -> list[types.Resource]:
        return [resource_of(name) for name in self.state.names]

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        return [template_of(name) for name in self.state.names]

    async def list_prompts(self) -> list[types.Prompt]:
        return [prompt_of(name) for name in self.state.names]


def mcp_server() -> MCPServer:
    """Return an `MCPServer` of the six lists."""
    state, paginator = State(), new_paginator()
    skills = SkillsExtension(
        StateSkills(state), paginator, directory_page_size=PAGE_SIZE, **OPTIONS
    )
    pagination = CursorPagination(
        paginator,
        page_sizes={"skills/list": None, "resources/directory/read": None},
        **OPTIONS,
    )
    server = _MCPServer(
        "demo",
        version="1.0",
        extensions=[skills],
        middleware=[pagination, skills],
        log_level="CRITICAL",
    )
    server.state = state
    server.add_tool(state.change, name="change")
    return server


# A low-level server: catalogs.


def low_level() -> Server[Any]:
    """Return a low-level server of the six lists."""
    state = State()
    tools, prompts = ToolCatalog(), PromptCatalog()
    resources, templates = ResourceCatalog(), ResourceTemplateCatalog()

    def nothing(*_: Any) -> str:
        return ""

    def add(name: str) -> None:
        tools.add(tool_of(name), nothing)
        prompts.add(prompt_of(name), nothing)
        resources.add(resource_of(name), nothing)
        templates.add(template_of(name), nothing)

    def change() -> None:
        gone = numbered(state.generation - 1)
        for catalog in (tools, prompts):
            catalog.remove(gone)
        resources.remove(f"data://{gone}")
        templates.remove(f"data://{gone}/{{text}}")
        add(state.names[-1])

    tools.add(CHANGE, lambda arguments, ctx: state.change())
    for name in state.names:
        add(name)
    state.on_list_changed(change)
    server = Server[Any]("demo", version="1.0")
    catalogs: list[Any] = [
        tools,
        prompts,
        CompositeResources(resources, templates),
        StateSkills(state),
    ]
    serve(server, catalogs, new_paginator(), **OPTIONS)
    return server


# FastMCP: its own skills, and a directory of another extension.


def fastmcp_app() -> Any:
    """Return a FastMCP app of the six lists; of these it has skills on 2026-07-28 only."""
    # Here, so that the other hosts start without it.
    from fastmcp import FastMCP
    from fastmcp.server.extensions import MethodBinding, ServerExtension
    from fastmcp.server.middleware import Middleware
    from fastmcp.skills import Skill
    from fastmcp.skills.provider import SkillManifestProvider

    from cursorkit.adapters.fastmcp import paginate

    class Skills(SkillManifestProvider):
        async def load_manifests(self) -> Mapping[str, Any]:
            return {
                name: Skill(name=name, description=f"Does {name}.", instructions="").manifest
                for name in state.names
            }

    class NoSkillFiles(Middleware):
        """Keeps the files of skills out of the resources."""

        async def on_list_resources(self, context: Any, call_next: Any) -> Sequence[Any]:
            return [each for each in await call_next(context) if each.uri.scheme == "data"]

    class DirectoryParams(types.PaginatedRequestParams):
        uri: str

    async def read_directory(ctx: Any, params: DirectoryParams) -> types.ListResourcesResult:
        found = [types.Resource.model_validate(child_of(name)) for name in state.names]
        return types.ListResourcesResult(resources=found)

    class Directories(ServerExtension):
        identifier = "com.example/directories"

        def methods(self) -> Sequence[MethodBinding]:
            method = "resources/directory/read"
            return [MethodBinding(method, DirectoryParams, read_directory)]

    state = State()
    app = FastMCP[Any]("demo", version="1.0", middleware=[NoSkillFiles()])
    app.tool(state.change, name="change")

    def nothing(query: str) -> str:
        return ""

    def empty() -> str:
        return ""

    def echo(text: str) -> str:
        return text

    def add(name: str) -> None:
        app.tool(nothing, name=name, description=f"Search {name}.")
        app.resource(f"data://{name}", name=name)(empty)
        app.resource(f"data://{name}/{{text}}", name=name)(echo)
        app.prompt(empty, name=name)

    def change() -> None:
        gone, local = numbered(state.generation - 1), app.local_provider
        local.remove_tool(gone)
        local.remove_resource(f"data://{gone}")
        local.remove_template(f"data://{gone}/{{text}}")
        local.remove_prompt(gone)
        add(state.names[-1])

    for name in state.names:
        add(name)
    state.on_list_changed(change)
    app.add_provider(Skills())
    app.add_extension(Directories())
    paginate(app, new_paginator(), page_size=PAGE_SIZE)
    return app


HOSTS: Final[Mapping[str, Callable[[], Any]]] = {
    "MCPServer": mcp_server,
    "low-level": low_level,
    "FastMCP": fastmcp_app,
}
"""Each host, and what makes a server of it."""


def in_process(server: Any) -> Any:
    """Return what the SDK's client connects to in memory."""
    return getattr(server, "_mcp_server", server)


def http_app(server: Any) -> Starlette:
    """Return the streamable HTTP app of a server, at /mcp."""
    if isinstance(server, MCPServer | Server):
        return server.streamable_http_app()
    app: Starlette = server.http_app()
    return app


async def _serve(server: Any) -> None:
    if isinstance(server, Server):
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    elif isinstance(server, MCPServer):
        await server.run_stdio_async()
    else:
        await server.run_async("stdio", show_banner=False)


if __name__ == "__main__":
    anyio.run(_serve, HOSTS[sys.argv[1]]())
