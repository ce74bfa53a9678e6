"""What all tests share: the backends of async tests and the effort of property tests."""

from __future__ import annotations

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


def pytest_configure() -> None:
    """Import test modules anew where pytest runs again in one process, as mutmut makes it do.

    Their marks keep the ids of the first run, and pytest would escape these a second time.
    """
    for name in [each for each in sys.modules if each.startswith(_REIMPORTED)]:
        del sys.modules[name]
