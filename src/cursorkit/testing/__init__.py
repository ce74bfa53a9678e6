"""For tests: a clock, and what every codec and every store must pass. Needs pytest."""

import pytest

# Before they are imported: a failed assertion then shows its values.
pytest.register_assert_rewrite("cursorkit.testing.codecs", "cursorkit.testing.stores")

from cursorkit.testing.clock import FakeClock  # noqa: E402
from cursorkit.testing.codecs import CodecConformance  # noqa: E402
from cursorkit.testing.stores import (  # noqa: E402
    SharedStoreConformance,
    StoreConformance,
)

__all__ = ["CodecConformance", "FakeClock", "SharedStoreConformance", "StoreConformance"]
