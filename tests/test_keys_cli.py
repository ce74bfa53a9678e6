"""`python -m cursorkit.keys`: new rings, rotation, files that only their owner reads, no leaks."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from cursorkit.keys import Key, KeyRing, __main__
from cursorkit.keys.__main__ import main

NOVEMBER: Final = 1_796_083_199.0  # 2026-11-30 23:59:59 UTC
SECRETS: Final = [hashlib.sha256(bytes([number])).digest() for number in range(30)]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def ring(self) -> KeyRing:
        return KeyRing.from_env(environ={"CURSORKIT_KEYS": self.out})


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, on the last second of November 2026."""
    randoms = iter(SECRETS)

    def run(*argv: str, ring: KeyRing | None = None, clock: float = NOVEMBER) -> Result:
        environ = {} if ring is None else {"CURSORKIT_KEYS": ring.to_json()}
        code = main(argv, environ=environ, clock=lambda: clock, random=lambda _: next(randoms))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def ring_of(*names: str) -> KeyRing:
    """Return a ring of keys with these names, the first of them primary."""
    made = [Key(hashlib.sha256(name.encode()).digest(), name=name) for name in names]
    return KeyRing(made[0], *made[1:])


def names_of(ring: KeyRing) -> list[str]:
    return [key.name for key in ring]


def assert_refused(result: Result, problem: str) -> None:
    """One line on stderr, exit code 2, nothing on stdout."""
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert problem in result.err
    assert "python -m cursorkit.keys" in result.err


# New rings


@pytest.mark.parametrize("argv", [(), ("new",)])
def test_new_prints_a_ring_named_after_the_month(run: Run, argv: tuple[str, ...]) -> None:
    """Without arguments, and as `new`, a ring of one key is printed and the next step told."""
    result = run(*argv)
    assert result.code == 0
    assert result.out.count("\n") == 1
    assert names_of(result.ring) == ["2026-11"]
    assert result.ring.primary.kid == Key(SECRETS[0]).kid
    assert result.err == "next: give this ring to every node and keep it secret\n"


@pytest.fixture(params=["UTC0", "EAST-14", "WEST12"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in a time zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_the_month_is_that_of_utc(run: Run) -> None:
    """The name changes in the second in which December begins in UTC, in every time zone."""
    assert run(clock=NOVEMBER).ring.primary.name == "2026-11"
    assert run(clock=NOVEMBER + 1).ring.primary.name == "2026-12"


def test_new_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`new --file` writes a ring that nobody else can read at any time, and prints nothing."""
    path = tmp_path / "ring.json"
    replace = os.replace

    def checked_replace(source: str, target: str) -> None:
        assert [stat.S_IMODE(os.stat(each).st_mode) for each in (source, target)] == [0o600] * 2
        replace(source, target)

    monkeypatch.setattr(os, "replace", checked_replace)
    old_mask = os.umask(0)
    try:
        result = run("new", "--file", str(path))
    finally:
        os.umask(old_mask)
    assert (result.code, result.out) == (0, "")
    assert names_of(KeyRing.from_file(path)) == ["2026-11"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["ring.json"]


@pytest.mark.parametrize("content", ["", "something"])
def test_new_refuses_to_overwrite(run: Run, content: str, tmp_path: Path) -> None:
    """`new --file` leaves a file that is there as it is."""
    path = tmp_path / "ring.json"
    path.write_text(content)
    assert_refused(run("new", "--file", str(path)), "File exists")
    assert path.read_text() == content
    assert os.listdir(tmp_path) == ["ring.json"]


def test_new_refuses_a_dangling_link(run: Run, tmp_path: Path) -> None:
    """`new --file` does not write through a link."""
    path = tmp_path / "ring.json"
    path.symlink_to(tmp_path / "elsewhere")
    assert_refused(run("new", "--file", str(path)), "File exists")
    assert os.listdir(tmp_path) == ["ring.json"]


def test_a_new_file_that_cannot_be_written_is_not_left_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk `new --file` leaves nothing, neither an empty ring nor half of one."""
    monkeypatch.setattr(os, "fsync", _full)
    assert_refused(run("new", "--file", str(tmp_path / "ring.json")), "No space left on device")
    assert os.listdir(tmp_path) == []


def test_new_in_a_directory_that_is_not_there(run: Run, tmp_path: Path) -> None:
    """`new --file` makes no directories."""
    path = str(tmp_path / "absent" / "ring.json")
    assert_refused(run("new", "--file", path), "cannot be written: No such file or directory")


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


# Rotation


def test_add_is_verify_only(run: Run) -> None:
    """`add` adds a verify-only key under the given name and keeps the primary."""
    result = run("add", "next", ring=ring_of("old", "older"))
    assert result.code == 0
    assert names_of(result.ring) == ["old", "older", "next"]
    assert result.ring.verify_only[1].kid == Key(SECRETS[0]).kid
    assert result.err == "next: give this ring to every node, then promote next\n"


def test_added_keys_are_named_after_the_month(run: Run) -> None:
    """Without a name, `add` takes the month, then the month with b, c and so on to z."""
    ring = ring_of("2026-08")
    for _ in range(26):
        ring = run("add", ring=ring).ring
    assert names_of(ring)[:4] == ["2026-08", "2026-11", "2026-11b", "2026-11c"]
    assert names_of(ring)[-1] == "2026-11z"
    assert_refused(run("add", ring=ring), "every name from 2026-11 to 2026-11z is taken")


def test_add_takes_the_first_free_name(run: Run) -> None:
    """A name that a removed key left is used again."""
    assert "2026-11b" in names_of(run("add", ring=ring_of("2026-11", "2026-11c")).ring)


def test_add_refuses_a_name_that_is_taken(run: Run) -> None:
    """`add` never replaces a key."""
    assert_refused(run("add", "a", ring=ring_of("a", "b")), "two keys have the name a")


@pytest.mark.parametrize("name", ["", "x" * 33, "a b", "\u00e9"])
def test_add_refuses_a_name_that_is_not_allowed(run: Run, name: str) -> None:
    """`add` refuses a name outside the rule, and does not show it."""
    result = run("add", name, ring=ring_of("a"))
    problem = "a name is 1 to 32 characters of A-Z a-z 0-9 . _ -; given: str of length"
    assert_refused(result, f"{problem} {len(name)};")
    assert name == "" or name not in result.err


def test_promote_makes_a_key_primary(run: Run) -> None:
    """`promote` makes a verify-only key the primary and keeps every other, the old primary too."""
    result = run("promote", "new", ring=ring_of("old", "older", "new"))
    assert result.code == 0
    assert names_of(result.ring) == ["new", "old", "older"]
    assert result.err == (
        "next: give this ring to every node, wait for the longest ttl + quantum + clock skew"
        " + slowest deploy, then remove old\n"
    )


def test_remove_drops_a_verify_only_key(run: Run) -> None:
    """`remove` drops a verify-only key and keeps the rest."""
    result = run("remove", "old", ring=ring_of("new", "old", "older"))
    assert result.code == 0
    assert names_of(result.ring) == ["new", "older"]
    assert result.err == (
        "next: give this ring to every node; cursors of old are refused from now on\n"
    )


def test_promote_refuses_the_primary(run: Run) -> None:
    """`promote` of the primary is an error: nothing would change."""
    assert_refused(run("promote", "a", ring=ring_of("a", "b")), "a is the primary key already")


def test_remove_refuses_the_primary(run: Run) -> None:
    """`remove` of the primary is refused: another must be promoted first."""
    result = run("remove", "a", ring=ring_of("a", "b"))
    assert_refused(result, "a is the primary key: promote another one first")


@pytest.mark.parametrize("command", ["promote", "remove"])
def test_an_unknown_name_is_refused(run: Run, command: str) -> None:
    """A name that no key has is refused, with the names there are."""
    result = run(command, "elsewhere", ring=ring_of("a", "b"))
    assert_refused(result, "no key of that name; the ring has a, b")
    assert "elsewhere" not in result.err


def test_a_rotation_loses_no_cursor(run: Run) -> None:
    """Nodes one step apart read each other's cursors: each ring has the other's primary."""
    rings = [run().ring]
    rings.append(run("add", ring=rings[-1]).ring)
    rings.append(run("promote", "2026-11b", ring=rings[-1]).ring)
    rings.append(run("remove", "2026-11", ring=rings[-1]).ring)
    assert [names_of(ring) for ring in rings] == [
        ["2026-11"],
        ["2026-11", "2026-11b"],
        ["2026-11b", "2026-11"],
        ["2026-11b"],
    ]
    for before, after in itertools.pairwise(rings[:3]):
        assert after.find(before.primary.kid) is not None
        assert before.find(after.primary.kid) is not None
    assert rings[3].find(rings[2].primary.kid) is not None


# Rings in files


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("add", "c"), ["a", "b", "c"]),
        (("promote", "b"), ["b", "a"]),
        (("remove", "b"), ["a"]),
    ],
)
@pytest.mark.parametrize("file_first", [True, False])
def test_a_file_is_rewritten_for_its_owner_alone(
    run: Run, argv: tuple[str, ...], names: list[str], file_first: bool, tmp_path: Path
) -> None:
    """With --file the ring in the file is rotated in place, and its mode becomes 0600."""
    path = tmp_path / "ring.json"
    path.write_text(ring_of("a", "b").to_json())
    path.chmod(0o644)
    option = ("--file", str(path))
    result = run(argv[0], *option, *argv[1:]) if file_first else run(*argv, *option)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("next: ")
    assert names_of(KeyRing.from_file(path)) == names
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["ring.json"]


def test_a_file_keeps_its_owner(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that replaces another is given to the same account before it takes its place."""
    path = tmp_path / "ring.json"
    path.write_text(ring_of("a").to_json())
    steps: list[tuple[object, ...]] = []
    replace = os.replace

    def chown(changed: str, owner: int, group: int) -> None:
        steps.append(("chown", changed, owner, group))

    def recorded_replace(source: str, target: str) -> None:
        steps.append(("replace", source, target))
        assert os.path.dirname(source) == os.path.dirname(target)  # another disk is no one step
        replace(source, target)

    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "replace", recorded_replace)
    owner = path.stat().st_uid
    assert run("add", "--file", str(path)).code == 0
    temporary = steps[0][1]
    assert steps == [
        ("chown", temporary, owner, -1),
        ("replace", temporary, os.path.realpath(path)),
    ]


def test_a_link_stays_a_link(run: Run, tmp_path: Path) -> None:
    """Where the path is a link, the file that it leads to is rewritten."""
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "ring.json", tmp_path / "ring.json"
    real.write_text(ring_of("a").to_json())
    link.symlink_to(real)
    assert run("add", "b", "--file", str(link)).code == 0
    assert link.is_symlink()
    assert names_of(KeyRing.from_file(real)) == ["a", "b"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_rewrite_changes_nothing(
    run: Run, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk is full or the file cannot be replaced, the old ring stays, alone and whole."""
    path = tmp_path / "ring.json"
    before = ring_of("a", "b").to_json()
    path.write_text(before)
    monkeypatch.setattr(os, step, _full)
    result = run("add", "--file", str(path))
    assert_refused(result, "the ring cannot be written: No space left on device")
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["ring.json"]


def test_a_file_is_used_instead_of_the_environment(run: Run, tmp_path: Path) -> None:
    """With --file, CURSORKIT_KEYS is not looked at."""
    path = tmp_path / "ring.json"
    path.write_text(ring_of("a").to_json())
    assert run("add", "b", "--file", str(path), ring=ring_of("c")).code == 0
    assert names_of(KeyRing.from_file(path)) == ["a", "b"]


# Errors


@pytest.mark.parametrize("argv", [("add",), ("promote", "a"), ("remove", "a")])
def test_no_ring_is_refused(run: Run, argv: tuple[str, ...], tmp_path: Path) -> None:
    """Without a ring in the environment or the file there is nothing to rotate."""
    assert_refused(run(*argv), "the environment variable CURSORKIT_KEYS is not set")
    path = tmp_path / "ring.json"
    result = run(*argv, "--file", str(path))
    assert_refused(result, "the key ring file cannot be read: No such file or directory")
    assert not path.exists()


def test_a_bad_ring_is_refused_and_left(run: Run, tmp_path: Path) -> None:
    """A file that is no ring is told from its reason and not touched."""
    path = tmp_path / "ring.json"
    text = ring_of("a", "b").to_json().replace('"a": "', '"a": "!')
    path.write_text(text)
    result = run("add", "--file", str(path))
    assert_refused(result, 'has an error in entry 1 of "keys", a: a secret is at least 32 bytes')
    assert path.read_text() == text


SECRET_TEXT: Final = json.loads(ring_of("a").to_json())["keys"]["a"]


@pytest.mark.parametrize(
    "argv",
    [
        (SECRET_TEXT,),
        ("new", SECRET_TEXT),
        ("new", "--file"),
        ("add", "a", SECRET_TEXT),
        ("promote",),
        ("promote", "a", SECRET_TEXT),
        ("remove",),
        ("remove", f"--{SECRET_TEXT}"),
        ("--secret", SECRET_TEXT),
        ("--file", SECRET_TEXT),
    ],
)
def test_bad_arguments_are_refused_without_showing_them(run: Run, argv: tuple[str, ...]) -> None:
    """Arguments that make no command are answered by the usage, in one line, and never quoted."""
    result = run(*argv, ring=ring_of("a", "b"))
    assert_refused(result, f"these arguments are not understood; usage: {__main__._USAGE}")  # pyright: ignore[reportPrivateUsage]
    assert SECRET_TEXT not in result.err


@pytest.mark.parametrize(
    "argv",
    [
        ("add", SECRET_TEXT),
        ("promote", SECRET_TEXT),
        ("remove", SECRET_TEXT),
        ("add", "--file", SECRET_TEXT),
        ("add", "--file", ring_of("a").to_json()),
        ("new", "--file", f"absent/{SECRET_TEXT}"),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(
    run: Run, argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret given as a name or a path is refused and not shown."""
    monkeypatch.chdir(tmp_path)
    result = run(*argv, ring=ring_of("a", "b"))
    assert_refused(result, "")
    assert SECRET_TEXT not in result.err


def test_output_that_cannot_be_written_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring that did not reach its reader is an error, not a success."""

    class Full(io.StringIO):
        def flush(self) -> None:
            _full()

    monkeypatch.setattr(sys, "stdout", Full())
    result = run()
    assert result.code == 2
    assert "the ring cannot be written: No space left on device" in result.err


FILE: Final = ("--file PATH", "the file that holds the ring")
HELP: Final[dict[str, tuple[str, list[tuple[str, ...]]]]] = {
    "": (
        __main__._USAGE,  # pyright: ignore[reportPrivateUsage]
        [
            ("commands:",),
            ("new", "make a ring with one key"),
            ("add", "add a key as verify-only"),
            ("promote", "make a verify-only key the primary one"),
            ("remove", "remove a verify-only key"),
        ],
    ),
    "new": ("python -m cursorkit.keys new [-h] [--file PATH]", [FILE]),
    "add": (
        "python -m cursorkit.keys add [-h] [--file PATH] [NAME]",
        [("NAME", "by default the year and month"), FILE],
    ),
    "promote": ("python -m cursorkit.keys promote [-h] [--file PATH] NAME", [("NAME",), FILE]),
    "remove": ("python -m cursorkit.keys remove [-h] [--file PATH] NAME", [("NAME",), FILE]),
}


@pytest.mark.parametrize("command", HELP)
def test_help_says_what_each_command_takes(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--help of each command gives its usage, and a line for all that may be given."""
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    usage, expected = HELP[command]
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"usage: {usage}"
    entries = {tuple(re.split(r"  +", line.strip(), maxsplit=1)) for line in lines}
    assert entries >= set(expected)


def test_help_explains_the_rotation(capsys: pytest.CaptureFixture[str]) -> None:
    """--help lists the commands and the steps of a rotation, in their order."""
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    words = re.findall(r"^  +(\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert words[:4] == ["add", "promote", "wait", "remove"]
    assert {"new", "add", "promote", "remove"} <= set(words[4:])


# As a process


def python_m_keys(*argv: str, ring: str | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__main__.__file__).parents[2])}
    environ.pop("CURSORKIT_KEYS", None)
    if ring is not None:
        environ["CURSORKIT_KEYS"] = ring
    return subprocess.run(
        [sys.executable, "-m", "cursorkit.keys", *argv],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_module_runs_as_a_command() -> None:
    """`python -m cursorkit.keys` prints a ring, and no warning; `add` reads it back."""
    new = python_m_keys()
    assert new.returncode == 0
    assert new.stderr == "next: give this ring to every node and keep it secret\n"
    name = json.loads(new.stdout)["primary"]
    assert re.fullmatch(r"\d{4}-\d{2}", name)
    added = python_m_keys("add", "second", ring=new.stdout)
    assert added.returncode == 0
    assert list(json.loads(added.stdout)["keys"]) == [name, "second"]


def test_an_error_of_the_command_has_no_traceback() -> None:
    """As a process, an error is one line on stderr and exit code 2."""
    done = python_m_keys("remove", "a", ring=ring_of("a").to_json())
    assert_refused(Result(done.returncode, done.stdout, done.stderr), "a is the primary key")
