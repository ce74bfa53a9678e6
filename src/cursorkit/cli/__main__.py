"""``python -m cursorkit.cli`` is the command ``cursorkit``."""

from cursorkit.cli import main

main()
