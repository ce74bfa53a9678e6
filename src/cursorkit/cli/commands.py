"""The commands. What they do is in modules of their own."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cursorkit.cli.inspection import NoCursorError, inspect
from cursorkit.errors import ConfigurationError
from cursorkit.keys import KeyRing

__all__ = ["app"]

_KEYS = "CURSORKIT_KEYS"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Cursors for servers that list things.",
)


def _console() -> Console:
    # A pipe has no width of its own, and 80 columns are too narrow for the tables.
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def _fail(problem: str) -> typer.Exit:
    typer.echo(f"error: {problem}", err=True)
    return typer.Exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cursorkit {metadata.version('cursorkit')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version, and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command("demo")
def _demo(
    tools: Annotated[int, typer.Option(min=200, max=2000, help="How many tools to list.")] = 320,
) -> None:
    """Run an MCP server, walk it with the official client, and try to break its cursors.

    Exits with 0 only if every claim held.
    """
    try:
        from cursorkit.cli.demo import run  # noqa: PLC0415  # only the demo needs the MCP SDK
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] == "cursorkit":
            raise
        raise _fail("the demo needs the MCP SDK: pip install 'cursorkit[cli,mcp]'") from None
    if not run(_console(), tools=tools):
        raise typer.Exit(1)


@app.command("inspect")
def _inspect(
    cursor: Annotated[str, typer.Argument(metavar="CURSOR", help="Or - to read it from stdin.")],
) -> None:
    """Show what a cursor's text tells without a key: its suite, key id and lengths.

    Looks the key id up in the ring of CURSORKIT_KEYS, where that is set. Says nothing of whether
    the cursor is authentic: that depends on what it is bound to, which is not in it.
    """
    try:
        text = sys.stdin.readline().rstrip("\r\n") if cursor == "-" else cursor
        ring = KeyRing.from_env(_KEYS) if _KEYS in os.environ else None
        facts = inspect(text, ring)
    except (ConfigurationError, NoCursorError) as error:
        raise _fail(str(error)) from None
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, fact in facts.items():
        table.add_row(name, fact)
    _console().print(table)
