"""Servers as fixtures, and what else the tests use of `benchmarks.servers`.

The fixtures are there for every test: `conftest.py` names this module as a plugin.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from benchmarks.servers import (
    HOST,
    SERVERS,
    Cluster,
    Proxy,
    Server,
    follow,
    free_port,
    running,
    running_cluster,
    running_sentinel,
    wait_until,
)

__all__ = [
    "HOST",
    "SERVERS",
    "Cluster",
    "Proxy",
    "Server",
    "follow",
    "free_port",
    "replicated",
    "running",
    "running_cluster",
    "running_sentinel",
    "wait_until",
]


_QUICK = os.environ.get("CURSORKIT_TEST_PROFILE") == "quick"


@pytest.fixture(scope="session", params=["valkey"] if _QUICK else sorted(SERVERS, reverse=True))
def program(request: pytest.FixtureRequest) -> str:
    """Each kind of server on this machine, one after the other."""
    return SERVERS[request.param]


@pytest.fixture
def namespace() -> str:
    """A part of a shared server for one test."""
    return f"test:{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def shared_server(program: str) -> Iterator[Server]:
    """A server for all tests: each keeps to a namespace of its own, and does it no harm."""
    with running(program) as server:
        yield server


@pytest.fixture
def server(program: str) -> Iterator[Server]:
    """A server of the test's own, to be harmed."""
    with running(program) as own:
        yield own


@pytest.fixture(scope="session")
def cluster(program: str) -> Iterator[Cluster]:
    """A cluster for all tests: each leaves it as it was."""
    with running_cluster(program) as nodes:
        yield nodes


@pytest.fixture
def pair(program: str) -> Iterator[tuple[Server, Server]]:
    """A primary, and a replica in step with it."""
    with running(program) as primary, running(program) as replica:
        follow(replica, primary)
        yield primary, replica


@pytest.fixture
async def address(pair: tuple[Server, Server]) -> AsyncIterator[Proxy]:
    """An address that leads to the primary, and can be made to lead elsewhere."""
    async with Proxy(pair[0]) as proxy:
        yield proxy


def replicated(primary: Server, replica: Server) -> None:
    """Return as soon as the replica has all that the primary has."""
    wait_until(lambda: replica.command("DBSIZE") == primary.command("DBSIZE"), "replication")
