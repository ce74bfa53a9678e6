"""A PostgreSQL of the tests' own, where its programs are installed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from tests.servers import HOST, free_port

_PATIENCE: Final = 30
"""Seconds after which a server that does not answer makes the tests fail."""


def programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`, None if they are not on this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # Debian keeps them there
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return None if on_path is None else Path(on_path).resolve().parent


def _account() -> dict[str, Any]:
    """Return how to start a program: the server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def running(folder: Path) -> Generator[str]:
    """Run a server on a free port, with a database of its own, and give its URL."""
    directory = Path(tempfile.mkdtemp(prefix="cursorkit-"))
    account = _account()
    if account:
        shutil.chown(directory, account["user"], account["group"])
    try:
        data = str(directory / "data")
        make = [str(folder / "initdb"), "-D", data, "-U", "tests", "-A", "trust", "--no-sync"]
        make += ["-E", "UTF8", "--locale", "C"]
        subprocess.run(make, cwd=directory, check=True, capture_output=True, **account)
        port = free_port()
        start = [str(folder / "postgres"), "-D", data, "-p", str(port), "-h", HOST, "-F"]
        start += ["-c", "unix_socket_directories=", "-c", "logging_collector=off"]
        with (directory / "log").open("w") as log:
            process = subprocess.Popen(start, cwd=directory, stderr=log, **account)
        try:
            url = f"postgresql+psycopg://tests@{HOST}:{port}/postgres"
            _wait(url, process, directory / "log")
            yield url
        finally:
            process.send_signal(signal.SIGQUIT)  # its children end too, at once
            process.wait(timeout=_PATIENCE)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _wait(url: str, process: subprocess.Popen[Any], log: Path) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OperationalError), engine.connect():
            return
        time.sleep(0.05)
    raise TimeoutError(f"PostgreSQL does not answer: {log.read_text()}")
