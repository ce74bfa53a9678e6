"""The examples of fleets prove what they say, as programs that end well only if it is so."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples import localized_fleet

ROOT = Path(__file__).parents[1]


def run(name: str) -> tuple[str, str]:
    """Run an example that must end well; return its output and its log, and leave no process."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path}
    env.pop("REDIS_URL", None)
    with subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            # Ends when the last process that writes to the pipes has ended, a node too.
            printed, logged = process.communicate(timeout=600)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, logged
    return printed, logged


def test_two_nodes_serve_one_list_through_kills_rotation_and_change() -> None:
    """Every page is of the other node; the new key signs in mid-walk; each walk is one list."""
    printed, _ = run("two_nodes")
    pages = [line.split()[:5] for line in printed.splitlines()]
    nodes, kids, *columns = zip(*pages, strict=True)
    old, new = kids[0], kids[4]
    assert "".join(nodes) == "AB" * 6
    assert old != new
    assert list(kids) == [old] * 4 + [new, "last"] + [new] * 5 + ["last"]
    walked = [name for row in zip(*columns, strict=True) for name in row]
    assert walked == [f"{age}-{number:02}" for age in ("old", "new") for number in range(18)]
    assert printed.count("was started") == 5
    assert printed.count("the list was changed") == 1


def test_a_localized_walk_survives_a_revision_and_its_cursors_are_refused_alike() -> None:
    """Eight ways to misuse a cursor have one answer; only the log knows which it was."""
    printed, logged = run("localized_fleet")
    walk, *refusals = printed.splitlines()
    assert re.findall(r"Zange \d\.\d", walk) == [f"Zange 1.{number}" for number in range(5)]
    wrong, answers = zip(*(line.split(maxsplit=1) for line in refusals), strict=True)
    assert " ".join(wrong) == ("tampered principal partition locale localization key expired lost")
    assert set(answers) == {"{'code': -32602, 'message': 'Invalid cursor'}"}
    assert re.findall(r"reason=(\w+)", logged) == ["tag"] * 5 + ["key", "expired", "lost"]


@pytest.mark.anyio
async def test_the_localized_example_ends_badly_when_a_claim_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refusal that differs from the expected one ends the program with an error."""
    monkeypatch.setattr(localized_fleet, "REFUSED", {"code": -32602, "message": "Expired"})
    monkeypatch.setattr(localized_fleet.Node, "revision", 1)
    with pytest.raises(SystemExit, match="not as it should be"):
        await localized_fleet.main()


@pytest.mark.parametrize(
    ("locale", "spelled"),
    [
        ("DE", "de"),
        ("de_de", "de-DE"),
        ("ZH-hant_tw", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("SL-it-Nedis", "sl-IT-nedis"),
        ("de-ch-1901", "de-CH-1901"),
    ],
)
def test_a_locale_has_one_spelling(locale: str, spelled: str) -> None:
    """Languages are lower, scripts title and regions upper case, joined by hyphens."""
    assert localized_fleet.canonical(locale) == spelled
    assert localized_fleet.canonical(spelled) == spelled
