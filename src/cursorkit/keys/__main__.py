"""The command line ``python -m cursorkit.keys``: new rings, and the steps of a rotation."""

from __future__ import annotations

import argparse
import os
import string
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NoReturn

from cursorkit.errors import ConfigurationError
from cursorkit.keys import Key, KeyRing, key_error

__all__ = ["main"]

_USAGE: Final = (
    "python -m cursorkit.keys [new | add [NAME] | promote NAME | remove NAME] [--file PATH]"
)
_DESCRIPTION: Final = """\
Makes a key ring and rotates its keys. Without --file, new prints a ring, and the other
commands read the one in CURSORKIT_KEYS and print what it becomes. With --file, new makes
the file, never over another one, and the other commands rewrite it.

To rotate without an outage, each step on every node before the next one:
  add          a new key, which reads cursors and does not mint yet
  promote      it to primary
  wait         for the longest ttl + quantum + clock skew + slowest deploy
  remove       the old key
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse's message quotes the arguments, and one of them may be a secret.
        raise ConfigurationError(f"these arguments are not understood; usage: {_USAGE}")


def main(
    argv: Sequence[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
    random: Callable[[int], bytes] = os.urandom,
) -> int:
    """Run ``python -m cursorkit.keys`` and return its exit code: 0, or 2 after an error.

    Args:
        argv: The arguments; None means those of the process.
        environ: Where CURSORKIT_KEYS is looked up; None means `os.environ`.
        clock: Returns Unix seconds; a new key is named after the year and month, UTC.
        random: As for `Key.generate`.
    """
    try:
        arguments = _parser().parse_args(argv)
        command, path = arguments.command or "new", arguments.file
        month = f"{datetime.fromtimestamp(clock(), UTC):%Y-%m}"
        if command == "new":
            ring = KeyRing(Key.generate(name=month, random=random))
            advice = "give this ring to every node and keep it secret"
        else:
            old = KeyRing.from_env(environ=environ) if path is None else KeyRing.from_file(path)
            ring, advice = _rotate(old, command, arguments.name, month, random)
        if path is None:
            sys.stdout.write(ring.to_json() + "\n")
            sys.stdout.flush()
        else:
            _write(path, ring, create=command == "new")
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {key_error(f'the ring cannot be written: {error.strerror}')}\n")
        return 2
    sys.stderr.write(f"next: {advice}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        usage=_USAGE,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(file=None)
    commands = parser.add_subparsers(
        dest="command", title="commands", prog="python -m cursorkit.keys"
    )
    new = commands.add_parser("new", help="make a ring with one key")
    add = commands.add_parser("add", help="add a key as verify-only")
    add.add_argument("name", metavar="NAME", nargs="?", help="by default the year and month")
    promote = commands.add_parser("promote", help="make a verify-only key the primary one")
    promote.add_argument("name", metavar="NAME")
    remove = commands.add_parser("remove", help="remove a verify-only key")
    remove.add_argument("name", metavar="NAME")
    for command in (new, add, promote, remove):
        command.add_argument("--file", metavar="PATH", help="the file that holds the ring")
    return parser


def _rotate(
    ring: KeyRing, command: str, name: str | None, month: str, random: Callable[[int], bytes]
) -> tuple[KeyRing, str]:
    """Return what `command` makes of the ring, and what to do next."""
    primary, others = ring.primary, ring.verify_only
    if command == "add":
        new = Key.generate(name=_free_name(ring, month) if name is None else name, random=random)
        return (
            KeyRing(primary, *others, new),
            f"give this ring to every node, then promote {new.name}",
        )
    key = next((key for key in ring if key.name == name), None)
    if key is None:
        raise key_error(f"no key of that name; the ring has {', '.join(key.name for key in ring)}")
    if command == "promote":
        if key is primary:
            raise key_error(f"{key.name} is the primary key already")
        return (
            KeyRing(key, primary, *(other for other in others if other is not key)),
            "give this ring to every node, wait for the longest ttl + quantum + clock skew"
            f" + slowest deploy, then remove {primary.name}",
        )
    if key is primary:
        raise key_error(f"{key.name} is the primary key: promote another one first")
    return (
        KeyRing(primary, *(other for other in others if other is not key)),
        f"give this ring to every node; cursors of {key.name} are refused from now on",
    )


def _free_name(ring: KeyRing, month: str) -> str:
    taken = {key.name for key in ring}
    for name in (month, *(month + letter for letter in string.ascii_lowercase[1:])):
        if name not in taken:
            return name
    raise key_error(f"every name from {month} to {month}z is taken: give a NAME")


def _write(path: str, ring: KeyRing, *, create: bool) -> None:
    """Put the ring in a file that only its owner can read, in one step."""
    if create:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    target = os.path.realpath(path)  # a link stays a link
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target))  # its mode is 0600
    try:
        with open(handle, "w", encoding="ascii") as file:
            file.write(ring.to_json() + "\n")
            file.flush()
            os.fsync(handle)
        if sys.platform != "win32":  # pragma: no branch
            # The server that reads the file may be another account than the one that rotates.
            os.chown(temporary, os.stat(target).st_uid, -1)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        if create:
            os.unlink(target)
        raise


if __name__ == "__main__":
    sys.exit(main())
