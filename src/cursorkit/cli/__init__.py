"""The command ``cursorkit``. Needs the extra ``cursorkit[cli]``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line on the arguments of the process."""
    try:
        from cursorkit.cli.commands import app  # noqa: PLC0415  # names its extra if missing
    except ImportError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"rich", "typer"}:
            raise
        sys.stderr.write(f"error: the command line needs {package}: pip install 'cursorkit[cli]'\n")
        sys.exit(2)
    app()
