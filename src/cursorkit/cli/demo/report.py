"""Claims that are checked, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["Report"]


@dataclass(slots=True)
class Report:
    """What the demo claims: how much of it held, and what did not."""

    console: Console
    held: int = 0
    failed: list[str] = field(default_factory=list[str])

    def check(self, claim: str, holds: bool) -> bool:
        """Count a claim, and return whether it holds."""
        if holds:
            self.held += 1
        else:
            self.failed.append(claim)
        return holds

    def cell(self, text: object, claim: str, holds: bool) -> str:
        """Check a claim about a cell of a table; return the cell, red if the claim failed."""
        style = "green" if self.check(claim, holds) else "bold red"
        return f"[{style}]{escape(str(text))}[/]"

    def heading(self, title: str, *lines: str) -> None:
        """Print the start of a part."""
        self.console.print(f"\n[bold]{title}[/]")
        for line in lines:
            self.console.print(line)

    def table(self, *columns: str, right: frozenset[int] = frozenset()) -> Table:
        """Return a table; the columns numbered in `right` are flush right."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="underline")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number in right else "left")
        return table

    def conclude(self) -> bool:
        """Print the verdict, and return whether every claim held."""
        total = self.held + len(self.failed)
        if not self.failed:
            self.console.print(f"\n[bold green]All {total} claims held.[/]")
            return True
        self.console.print(f"\n[bold red]{len(self.failed)} of {total} claims failed:[/]")
        for claim in self.failed:
            self.console.print(f"  {claim}", style="red", markup=False)
        return False
