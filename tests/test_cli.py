"""The command `cursorkit`: its demo, its inspection of cursors, and its answers to bad input."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cursorkit import (
    Binding,
    CursorError,
    Key,
    KeyRing,
    Offset,
    OffsetCodec,
    Page,
    SignedCodec,
    SnapshotOffset,
    SnapshotPaginator,
)
from cursorkit.cli import main
from cursorkit.cli.commands import app
from cursorkit.cli.demo import run, speed
from cursorkit.cli.demo.refusals import REFUSED, Attempt, Found, show_refusals
from cursorkit.cli.demo.report import Report
from cursorkit.codecs.base import to_text

SRC: Final = Path(__file__).parents[1] / "src"
OLD: Final = Key(bytes(range(32)), name="old")
NEW: Final = Key(bytes(range(1, 33)), name="new")
RING: Final = KeyRing(NEW, OLD)
BINDING: Final = Binding("tools/list", principal="alice")
POSITION: Final = SnapshotOffset(bytes(32), 50, 50)

runner = CliRunner(env={"CURSORKIT_KEYS": None})


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep colours out of what is printed, whatever the CI asks for."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)


def facts(cursor: str, ring: KeyRing | None = RING) -> dict[str, str]:
    """Return what `cursorkit inspect` prints about a cursor, by name."""
    keys = None if ring is None else ring.to_json()
    result = runner.invoke(app, ["inspect", cursor], env={"CURSORKIT_KEYS": keys})
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.partition(" ") for line in result.stdout.splitlines()]
    return {name: fact.strip() for name, _, fact in lines}


def page_replaced_by(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[str | None, Page[Any]], Page[Any]]
) -> None:
    """Let every paginator return what `change` makes of its pages."""
    genuine = SnapshotPaginator.page

    async def page(self: SnapshotPaginator, cursor: str | None, *args: Any, **options: Any) -> Any:
        return change(cursor, await genuine(self, cursor, *args, **options))

    monkeypatch.setattr(SnapshotPaginator, "page", page)


def demo_output(monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run the demo on a small list and return its exit status and what it printed."""
    monkeypatch.setattr(speed, "ROUNDS", 1)
    result = runner.invoke(app, ["demo", "--tools", "200"])
    assert isinstance(result.exception, SystemExit)  # another one would be status 1, too
    return result.exit_code, result.stdout


def test_version_is_that_of_the_package() -> None:
    """`--version` prints the name and the version, and nothing else."""
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, "cursorkit 0.1.0\n")


def test_the_demo_holds() -> None:
    """The demo, in a process of its own, ends with 0, its claims counted and no error printed."""
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    result = subprocess.run(
        [sys.executable, "-m", "cursorkit.cli", "demo", "--tools", "200"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "All 45 claims held." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_lost_item_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paginator that loses an item of each later page makes the exit status 1."""

    def lose(cursor: str | None, page: Page[Any]) -> Page[Any]:
        return page if cursor is None else replace(page, items=page.items[1:])

    page_replaced_by(monkeypatch, lose)
    status, output = demo_output(monkeypatch)
    assert status == 1
    assert "walk, 2026-07-28: 197 items, not 200" in output
    assert "walk, 2025-11-25: not the list of its first request" in output


def test_a_repeated_item_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paginator that repeats an item on each page makes the exit status 1."""

    def repeat(cursor: str | None, page: Page[Any]) -> Page[Any]:
        return replace(page, items=[*page.items, page.items[0]])

    page_replaced_by(monkeypatch, repeat)
    status, output = demo_output(monkeypatch)
    assert status == 1
    assert "walk, 2026-07-28: 4 duplicates" in output


def test_an_accepted_forgery_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paginator that takes an invalid cursor for the first page makes the exit status 1."""
    genuine = SnapshotPaginator.page

    async def page(self: SnapshotPaginator, cursor: str | None, *args: Any, **options: Any) -> Any:
        try:
            return await genuine(self, cursor, *args, **options)
        except CursorError:
            return await genuine(self, None, *args, **options)

    monkeypatch.setattr(SnapshotPaginator, "page", page)
    status, output = demo_output(monkeypatch)
    assert status == 1
    assert "a forged unsigned cursor, 2026-07-28: accepted, not as all others" in output
    assert "another user's, 2025-11-25: accepted, not as all others" in output


def test_a_server_that_refuses_everything_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo that cannot go on says so, and makes the exit status 1."""

    def refuse(cursor: str | None, page: Page[Any]) -> Page[Any]:
        if cursor is not None:
            raise RuntimeError
        return page

    page_replaced_by(monkeypatch, refuse)
    status, output = demo_output(monkeypatch)
    assert status == 1
    assert "the demo ended early: MCPError" in output


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {**REFUSED, "data": ""}},
        {"error": {**REFUSED, "code": -32603}},
        {"error": {**REFUSED, "message": "Invalid cursor: eyJv"}},
        {"result": {"tools": []}},
    ],
)
def test_a_refusal_that_tells_more_is_a_failed_claim(reply: dict[str, Any]) -> None:
    """An error with data, another code or another message is no refusal like all others."""
    report = Report(Console(file=io.StringIO()))
    client = (-32602, "Invalid cursor", None)
    show_refusals(report, [Attempt("it", "x", "tag")], {"era": [Found(reply, client, ["tag"])]})
    assert len(report.failed) == 1
    assert report.held == 1


def test_a_refusal_like_all_others_is_a_claim_that_held() -> None:
    """The frozen error without data, with its reason in the log, fails nothing."""
    report = Report(Console(file=io.StringIO()))
    found = Found({"error": REFUSED}, (-32602, "Invalid cursor", None), ["tag", "tag"])
    show_refusals(report, [Attempt("it", "x", "tag")], {"era": [found]})
    assert report.failed == []
    assert report.conclude()


def test_the_demo_returns_whether_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo as a function returns False once a claim failed."""
    monkeypatch.setattr(speed, "ROUNDS", 1)
    page_replaced_by(monkeypatch, lambda _, page: replace(page, next_cursor=None))
    assert run(Console(file=io.StringIO()), tools=200) is False


def test_inspect_tells_what_a_signed_cursor_shows() -> None:
    """Suite, key id, lengths and the key's role are shown, and no claim to be authentic."""
    cursor = SignedCodec(RING).encode(POSITION, BINDING)
    assert facts(cursor) == {
        "text": "80 characters",
        "canonical": "yes",
        "suite": "0x11, signed, HMAC-SHA-256 (SignedCodec)",
        "bytes": "60: header 5, body 39, tag 16",
        "kid": NEW.kid.hex(),
        "key": "new, the primary key in the ring of CURSORKIT_KEYS",
        "authentic": "not known: that takes what the cursor is bound to, which is not in it",
    }


@pytest.mark.parametrize(
    ("ring", "key"),
    [
        (KeyRing(NEW, OLD), "old, verify-only in the ring of CURSORKIT_KEYS"),
        (KeyRing(NEW), "not in the ring of CURSORKIT_KEYS: its codecs refuse the cursor"),
        (None, "not looked up: CURSORKIT_KEYS is not set"),
    ],
)
def test_inspect_looks_the_key_up(ring: KeyRing | None, key: str) -> None:
    """A key that is verify-only, not in the ring, or not looked up is told apart."""
    cursor = SignedCodec(KeyRing(OLD)).encode(POSITION, BINDING)
    assert facts(cursor, ring)["key"] == key


def test_inspect_tells_that_an_unsigned_cursor_has_no_key() -> None:
    """An unsigned cursor is shown as one that anyone can make, without key and tag."""
    found = facts(OffsetCodec().encode(Offset(100), BINDING))
    assert found["suite"] == "0x01, unsigned: anyone can make one (OffsetCodec)"
    assert found["bytes"] == "9: header 5, body 4"
    assert found.keys() == {"text", "canonical", "suite", "bytes", "list"}


@pytest.mark.parametrize(
    ("raw", "suite", "lengths"),
    [
        (
            b"\x12" + bytes(30),
            "0x12, sealed, AES-256-SIV (SealedCodec)",
            "31: header 5, body 10, tag 16",
        ),
        (b"\x7f" + bytes(30), "0x7f, unknown: no codec accepts it", "31"),
        (
            b"\x11" + bytes(20),
            "0x11, signed, HMAC-SHA-256 (SignedCodec)",
            "21: too short for this suite",
        ),
    ],
)
def test_inspect_tells_the_suites_apart(raw: bytes, suite: str, lengths: str) -> None:
    """Sealed, unknown and cut-off cursors are shown as what they are."""
    found = facts(to_text(raw))
    assert (found["suite"], found["bytes"]) == (suite, lengths)


@pytest.mark.parametrize(("kept", "added"), [(None, "="), (-1, "B")])
def test_inspect_tells_another_spelling(kept: int | None, added: str) -> None:
    """Padding, or bits beyond the last byte, make a spelling that no codec accepts."""
    text = to_text(b"\x11" + bytes(30))
    assert text.endswith("A")
    assert facts(text[:kept] + added)["canonical"] == "no: no codec accepts this spelling"


def test_inspect_reads_a_cursor_from_stdin() -> None:
    """ "-" reads the cursor from the first line of stdin, out of the shell's history."""
    cursor = SignedCodec(RING).encode(POSITION, BINDING)
    result = runner.invoke(app, ["inspect", "-"], input=f"{cursor}\r\n")
    assert result.exit_code == 0
    assert f"kid        {NEW.kid.hex()}" in result.stdout


@pytest.mark.parametrize(
    ("cursor", "problem"),
    [
        ("", '"" is no cursor that any codec makes'),
        ("E", "no cursor: the text is no base64url"),
        ("secret+text", "no cursor: the text is no base64url"),
        ("sécret", "no cursor: the text is no base64url"),
        ("secr=et", "no cursor: the text is no base64url"),
        ("====", "no cursor: the text is no base64url"),
        ("EQAAAAA", "no cursor: 5 bytes, and the header alone has 5"),
        (
            "A" * 4097,
            "no cursor: 4,097 characters, and a codec reads 4,096 unless told otherwise",
        ),
    ],
)
def test_inspect_refuses_in_one_line_what_is_no_cursor(cursor: str, problem: str) -> None:
    """A text that no codec could have made is one line on stderr without the text, and status 2."""
    result = runner.invoke(app, ["inspect", cursor])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {problem}\n"


def test_inspect_refuses_a_bad_ring_in_one_line() -> None:
    """A CURSORKIT_KEYS that is no ring is one line on stderr without its text, and status 2."""
    cursor = SignedCodec(RING).encode(POSITION, BINDING)
    result = runner.invoke(app, ["inspect", cursor], env={"CURSORKIT_KEYS": '{"primary": "s3cret"'})
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: the environment variable CURSORKIT_KEYS is not JSON")
    assert result.stderr.count("\n") == 1
    assert "s3cret" not in result.stderr


@pytest.mark.parametrize("arguments", [["inspect"], ["no-such-command"], ["demo", "--tools", "3"]])
def test_wrong_usage_has_status_2(arguments: list[str]) -> None:
    """Arguments that are missing, unknown or out of range end with status 2 and no traceback."""
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize("package", ["rich", "typer"])
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str
) -> None:
    """Without typer or rich, the command is one line that names the extra, and status 2."""
    monkeypatch.delitem(sys.modules, "cursorkit.cli.commands")
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    problem = f"error: the command line needs {package}: pip install 'cursorkit[cli]'\n"
    assert capsys.readouterr().err == problem


def test_the_demo_without_the_sdk_names_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the MCP SDK, the demo is one line that names the extras, and status 2."""
    for name in [name for name in sys.modules if name.startswith("cursorkit.cli.demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 2
    assert result.stderr == "error: the demo needs the MCP SDK: pip install 'cursorkit[cli,mcp]'\n"
