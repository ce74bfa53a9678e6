"""What all tests share: the backends of async tests and the effort of property tests."""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import settings

# In CI the same code must give the same answer, so examples come from a fixed seed there; elsewhere
# each run looks at new ones. No deadline: a slow machine is not a wrong result.
settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True)
settings.load_profile(
    os.environ.get("CURSORKIT_TEST_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


pytest_plugins = ["tests.servers"]

_REIMPORTED = ("tests.test_", "cursorkit.testing")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests under asyncio, unless the test is marked `both_backends`."""
    return "asyncio"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `both_backends` under asyncio and under trio."""
    if metafunc.definition.get_closest_marker("both_backends"):
        metafunc.parametrize("anyio_backend", ["asyncio", "trio"], scope="module")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported: that is most of what there is."""
    gc.freeze()


NEAREST = {
    "cursorkit.binding": ["test_binding", "test_format_vectors"],
    "cursorkit.codecs": [
        "test_format_vectors",
        "test_fallback",
        "test_known",
        "test_codec",
        "test_offset_codec",
        "test_refusal_log",
    ],
    "cursorkit.healing": ["test_healing"],
    "cursorkit.keys": ["test_keys", "test_rotation"],
    "cursorkit.paginators.keyset": ["test_keyset"],
    "cursorkit.paginators.offset": ["test_offset"],
    "cursorkit.paginators": ["test_snapshot_paginator", "test_offset", "test_keyset"],
    "cursorkit.positions": ["test_format_vectors", "test_positions"],
    "cursorkit.snapshots": ["test_snapshots"],
}
"""The tests that must notice a mutant of a module; `make mutants` runs these alone."""


def pytest_configure(config: pytest.Config) -> None:
    """Fit pytest to mutmut, which runs it again and again in one process.

    Test modules are imported anew: their marks keep the ids of the first run, and pytest would
    escape these a second time. And of the tests that reach a mutant only the nearest are run.
    """
    for name in [each for each in sys.modules if each.startswith(_REIMPORTED)]:
        del sys.modules[name]
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    for module, files in NEAREST.items():
        if mutant.startswith(module):
            config.args = [each for file in files for each in config.args if f"/{file}" in each]
            break
