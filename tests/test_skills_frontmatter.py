"""The frontmatter of a SKILL.md: what is taken, what is refused, and what is said of it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit.catalogs.skills.frontmatter import (
    MAX_FRONTMATTER,
    FrontmatterError,
    parse_frontmatter,
)

NEEDED = "name: a\ndescription: b\n"


def parsed(lines: str) -> dict[str, Any]:
    """Return the frontmatter that these lines make."""
    return parse_frontmatter(f"---\n{lines}---\nText.\n".encode())


def problem(text: str | bytes) -> str:
    """Return what is wrong with a SKILL.md."""
    with pytest.raises(FrontmatterError) as caught:
        parse_frontmatter(text.encode() if isinstance(text, str) else text)
    return str(caught.value)


def problem_in(lines: str) -> str:
    """Return what is wrong with a SKILL.md that has these lines as frontmatter."""
    return problem(f"---\n{lines}---\n")


def test_every_field_is_kept_as_it_was_written() -> None:
    """Fields that no specification knows pass unchanged, nested ones too, in their order."""
    found = parsed(
        NEEDED
        + textwrap.dedent("""\
        zeta: [1, 2.5, true, null, "x"]
        metadata:
          version: "1.0"
          deep: {b: [], a: {}}
        allowed-tools: Bash Read
        license: MIT
        """)
    )
    assert found == {
        "name": "a",
        "description": "b",
        "zeta": [1, 2.5, True, None, "x"],
        "metadata": {"version": "1.0", "deep": {"b": [], "a": {}}},
        "allowed-tools": "Bash Read",
        "license": "MIT",
    }
    assert list(found) == ["name", "description", "zeta", "metadata", "allowed-tools", "license"]


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\ndescription: b\n---",
        "---\nname: a\ndescription: b\n---\n",
        "---\r\nname: a\r\ndescription: b\r\n---\r\nText.\r\n",
        "---\r\nname: a\r\ndescription: b\r\n---",
        "--- \nname: a\ndescription: b\n---\t\nText.",
        "\ufeff---\nname: a\ndescription: b\n---\n",
        "---\nname: a\ndescription: b\n---\n---\nnot: [this\n---\n",
    ],
)
def test_line_ends_and_a_byte_order_mark_do_not_matter(text: str) -> None:
    """CRLF, a BOM, blanks after the dashes, and no line end at all give the same fields."""
    assert parse_frontmatter(text.encode()) == {"name": "a", "description": "b"}


@pytest.mark.parametrize("name", ["a", "7", "a-b", "pdf-2-text", "a" * 64])
def test_a_name_of_lower_case_letters_digits_and_hyphens_is_taken(name: str) -> None:
    """What the Agent Skills specification allows, up to 64 characters."""
    assert parsed(f'name: "{name}"\ndescription: b\n')["name"] == name


@pytest.mark.parametrize(
    "name",
    ["", "A", "a_b", "-a", "a-", "a--b", "a b", "a/b", "..", "ä", "ａ", "a\\n", "a" * 65],
)
def test_another_name_is_refused(name: str) -> None:
    """Capitals, underscores, hyphens at the ends or doubled, unicode, and 65 characters."""
    assert "needs a name, a text of 1 to 64" in problem_in(f'name: "{name}"\ndescription: b\n')


@pytest.mark.parametrize("name", ["name: 7\n", "name: on\n", "name:\n", "name: [a]\n", ""])
def test_a_name_that_is_no_text_is_refused(name: str) -> None:
    """YAML makes numbers and truth values of what is not in quotes."""
    assert "needs a name" in problem_in(f"{name}description: b\n")


@pytest.mark.parametrize(
    "description", ["", "description:\n", 'description: " "\n', "description: 7\n"]
)
def test_a_description_is_needed(description: str) -> None:
    """A missing, empty or blank one is refused, and one that is no text."""
    found = problem_in(f"name: a\n{description}")
    assert found == (
        "needs description to be a text of at most 1024 characters that is not empty, in quotes"
    )


def test_a_description_has_1024_characters_at_most() -> None:
    """Characters, not bytes: 1,024 of two bytes each are taken, one more is not."""
    assert len(parsed(f"name: a\ndescription: {'ä' * 1024}\n")["description"]) == 1024
    assert "at most 1024 characters" in problem_in(f"name: a\ndescription: {'b' * 1025}\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("license: 7", "needs license to be a text that is not empty"),
        ("license:", "needs license to be a text"),
        ("compatibility: []", "needs compatibility to be a text of at most 500 characters"),
        (f"compatibility: {'c' * 501}", "of at most 500 characters"),
        ("metadata: x", "metadata that is no mapping"),
        ("metadata:", "metadata that is no mapping"),
        ("allowed-tools: 7", "neither a text nor a list of texts"),
        ("allowed-tools: [Read, 7]", "neither a text nor a list of texts"),
    ],
)
def test_a_known_field_of_another_type_is_refused(line: str, told: str) -> None:
    """What the specification says of a field is checked, and the message names the field."""
    assert told in problem_in(f"{NEEDED}{line}\n")


def test_tools_may_be_a_list() -> None:
    """The specification allows a list of texts as well as one text."""
    assert parsed(f"{NEEDED}allowed-tools: [Read, Bash]\n")["allowed-tools"] == ["Read", "Bash"]


@pytest.mark.parametrize(
    "text", ["", "# Title\n", "\n---\nname: a\n---\n", "---\nname: a\n", "----\nname: a\n----\n"]
)
def test_a_file_without_frontmatter_is_refused(text: str) -> None:
    """It must be the first thing in the file, and end."""
    assert "does not begin with frontmatter" in problem(text)


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    """The text counts, too: a client gets all of it."""
    assert "is not UTF-8" in problem(f"---\n{NEEDED}---\n".encode() + b"\xff")


@pytest.mark.parametrize("text", ["---\n---\n", "---\n- a\n---\n", "---\njust text\n---\n"])
def test_frontmatter_that_is_no_mapping_is_refused(text: str) -> None:
    """Nothing, a list and a text have no fields."""
    assert "is no mapping" in problem(text)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("name: [a\n", "line 3: "),
        ("name: a\n\tdescription: b\n", "line 3: "),
        (f"{NEEDED}x: !!python/object/apply:os.system [ls]\n", "line 4: could not determine"),
        (f"{NEEDED}x: !mine 1\n", "line 4: could not determine"),
        (f"{NEEDED}x: !!omap [a: 1]\n", "line 4: could not determine"),
        (f"{NEEDED}x: !!pairs [a: 1]\n", "line 4: could not determine"),
        (f"{NEEDED}x: *gone\n", "line 4: an alias"),
        (f"{NEEDED}x: &a 1\ny: *a\n", "line 5: an alias"),
        (f"{NEEDED}name: c\n", "line 4: a key that came before"),
        (f"{NEEDED}x: {{y: 1, y: 2}}\n", "line 4: a key that came before"),
        (f"{NEEDED}1: x\n", "line 4: a key that is no text"),
        (f"{NEEDED}on: x\n", "line 4: a key that is no text"),
        (f"{NEEDED}x:\n  ? [a]\n  : 1\n", "line 5: a key that is no text"),
        (f"{NEEDED}<<: {{name: c}}\n", "line 4: could not determine"),
        (f"{NEEDED}...\nx: 1\n", "line 5: "),
    ],
)
def test_bad_yaml_is_refused_with_its_line(lines: str, told: str) -> None:
    """The message has the line of the file, and says what is there."""
    assert f"has frontmatter that cannot be read: {told}" in problem_in(lines)


def test_a_bomb_of_aliases_never_goes_off() -> None:
    """Nine levels of nine aliases each, gigabytes if followed, are refused at the first."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert "line 5: an alias" in problem_in(NEEDED + "\n".join(levels) + "\n")


def test_a_list_within_itself_is_refused() -> None:
    """An anchor that its own content points to is an alias as well."""
    assert "an alias" in problem_in(f"{NEEDED}x: &a [*a]\n")


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-30",
        "2026-11-30T10:00:00Z",
        ".nan",
        ".inf",
        "!!binary aGk=",
        "!!set {a}",
        '"\\uD800"',
    ],
)
def test_a_value_that_json_has_not_is_refused(value: str) -> None:
    """Dates, numbers that are not finite, bytes, sets, and half of a surrogate pair."""
    assert "that JSON has not" in problem_in(f"{NEEDED}x: {value}\n")


@pytest.mark.parametrize("value", ["2026-99-99", "9" * 5000])
def test_a_value_that_python_cannot_make_is_refused(value: str) -> None:
    """A day that the calendar has not, and more digits than Python reads."""
    assert "a date or number" in problem_in(f"{NEEDED}x: {value}\n")


def test_a_control_character_is_refused() -> None:
    """YAML has none, and says so in another way than of all else."""
    assert "control character" in problem_in(f"{NEEDED}x: a\x07b\n")


def test_deep_nesting_is_refused() -> None:
    """Thousands of brackets end in a message, not in a crash."""
    assert "nested too deep" in problem_in(f"{NEEDED}x: {'[' * 20_000}\n")


def test_frontmatter_has_an_end_within_64_kib() -> None:
    """Whatever comes after that many characters is not looked at."""
    fits = "x: " + "y" * (MAX_FRONTMATTER - len(f"---\n{NEEDED}x: \n---"))
    assert len(parsed(f"{NEEDED}{fits}\n")["x"]) > 65_000
    assert "in the first 65536 characters" in problem_in(f"{NEEDED}{fits}y\n")


@given(st.text(alphabet="ab:-[]{}#&*!|>'\"%@`,?\n \t\r\ufeff0", max_size=60))
def test_whatever_stands_there_it_is_taken_or_refused(lines: str) -> None:
    """No text of frontmatter raises anything but the one error."""
    try:
        fields = parsed(lines + "\n")
    except FrontmatterError:
        return
    assert set(fields) >= {"name", "description"}


def test_without_pyyaml_the_extra_is_named() -> None:
    """The module needs it, the other catalogs and the adapter's extension do not."""
    program = """
import sys
sys.modules["yaml"] = None
import cursorkit.catalogs, cursorkit.adapters.mcp
try:
    import cursorkit.catalogs.skills
except ImportError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == "SkillCatalog needs PyYAML: pip install 'cursorkit[skills]'\n"
