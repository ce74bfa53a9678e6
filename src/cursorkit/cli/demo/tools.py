"""A few hundred tools as a company's server might list them: eight functions over many products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from itertools import count
from typing import Annotated, Any, Final, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field

__all__ = ["generated_tools"]

_Query = Annotated[str, Field(description="Words to look for; quotes keep a phrase together.")]
_Project = Annotated[str, Field(description="The project's key, as in its address.")]
_Record = Annotated[str, Field(description="The record's id.", pattern="^[A-Z]+-[0-9]+$")]
_Limit = Annotated[int, Field(description="The most records to return.", ge=1, le=500)]


def _search_records(
    query: _Query,
    project: _Project | None = None,
    state: Literal["open", "waiting", "closed"] | None = None,
    limit: _Limit = 50,
) -> list[str]:
    """Search records by their text and return the ids of those that match, the best first."""
    return [query, str(project), str(state)][:limit]


def _get_record(record: _Record, with_history: bool = False) -> dict[str, Any]:
    """Return one record with all its fields, and on request with every change made to it."""
    return {"record": record, "history": with_history}


def _create_record(
    project: _Project,
    title: Annotated[str, Field(description="One line.", max_length=200)],
    body: Annotated[str, Field(description="Markdown; links to other records are resolved.")],
    labels: Annotated[list[str] | None, Field(description="Labels that exist already.")] = None,
    due: Annotated[date | None, Field(description="The day on which it is due.")] = None,
) -> str:
    """Create a record in a project and return its id. Fails if the project is archived."""
    return f"{project} {title} {body} {labels} {due}"


def _update_record(
    record: _Record,
    fields: Annotated[dict[str, str], Field(description="New values by field name.")],
    notify: Annotated[bool, Field(description="Tell those who watch the record.")] = True,
) -> str:
    """Change fields of a record. What is not named stays as it is."""
    return f"{record} {fields} {notify}"


def _delete_record(
    record: _Record, reason: Annotated[str, Field(description="Kept in the project's log.")]
) -> str:
    """Delete a record for good. It cannot be brought back; prefer closing it."""
    return f"{record} {reason}"


def _export_records(
    project: _Project,
    since: Annotated[date, Field(description="The first day.")],
    until: Annotated[date, Field(description="The last day, included.")],
    form: Literal["csv", "json", "parquet"] = "csv",
) -> str:
    """Export a project's records of some days to a file and return its address."""
    return f"{project} {since} {until} {form}"


def _add_comment(
    record: _Record,
    text: Annotated[str, Field(description="Markdown.", max_length=10_000)],
    internal: Annotated[bool, Field(description="Hide it from guests.")] = False,
) -> str:
    """Add a comment to a record and return the comment's id."""
    return f"{record} {text} {internal}"


def _assign_record(
    record: _Record,
    assignee: Annotated[str, Field(description="An e-mail address of a member.")],
) -> str:
    """Make a member responsible for a record. Whoever was responsible before is told."""
    return f"{record} {assignee}"


_FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    _search_records,
    _get_record,
    _create_record,
    _update_record,
    _delete_record,
    _export_records,
    _add_comment,
    _assign_record,
)
_PRODUCTS: Final = (
    "billing",
    "calendar",
    "contacts",
    "contracts",
    "deployments",
    "incidents",
    "inventory",
    "invoices",
    "payroll",
    "releases",
    "support",
    "travel",
)


def generated_tools() -> Iterator[Tool]:
    """Yield tools without an end, each with a name of its own, the same each time."""
    templates = [
        Tool.from_function(
            function,
            name=function.__name__.removeprefix("_"),
            annotations=ToolAnnotations(
                read_only_hint=function in {_search_records, _get_record, _export_records},
                destructive_hint=function is _delete_record,
            ),
        )
        for function in _FUNCTIONS
    ]
    for region in count(1):
        for product in _PRODUCTS:
            for tool in templates:
                yield tool.model_copy(
                    update={
                        "name": f"{product}_{region}_{tool.name}",
                        "title": f"{product.title()} {region}: {tool.name.replace('_', ' ')}",
                        "description": f"{product.title()}, region {region}. {tool.description}",
                    }
                )
