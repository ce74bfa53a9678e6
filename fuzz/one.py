"""Fuzz one target with atheris: ``python -m fuzz.one TARGET [libFuzzer's arguments]``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

atheris: Any = importlib.import_module("atheris")  # not there where there is no wheel of it

with atheris.instrument_imports(include=["cursorkit"]):
    from fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
