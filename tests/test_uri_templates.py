"""URIs have one normal form, and templates give back what they were expanded from."""

from __future__ import annotations

import itertools
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit import ConfigurationError
from cursorkit.catalogs import UriTemplate
from cursorkit.catalogs.uris import check_uri, normal_form

NORMAL = [
    "file:///",
    "file:///a/b.txt",
    "file://host/a",
    "config://app",
    "config://app/",
    "urn:example:animal:ferret:nose",
    "mailto:a@example.com",
    "magnet:?xt=1",
    "tel:+1-816-555-1212",
    "data:,x",
    "http://example.com/",
    "http://example.com:8080/a?b=c/d?e",
    "https://user:pw@example.com/%C3%A9%2F~",
    "http://[2001:db8::7]/c=GB?one",
    "http://[::1]:81/",
    "http://[::ffff:192.0.2.1]/",
    "x:a:../b",
    "a+b.c-d:x",
    "x://h//a//b",
]

EQUIVALENT = [
    ("HTTP://www.EXAMPLE.com/", "http://www.example.com/"),
    ("eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "example://a/b/c/%7Bfoo%7D"),
    ("http://example.com", "http://example.com/"),
    ("http://example.com:/", "http://example.com/"),
    ("http://example.com:80/", "http://example.com/"),
    ("https://example.com:443?q", "https://example.com/?q"),
    ("ws://example.com:0080/", "ws://example.com/"),
    ("config://App:/x", "config://app/x"),
    ("http://ex%41mple.com/", "http://example.com/"),
    ("http://ex%c3mple.com/", "http://ex%C3mple.com/"),
    ("http://%41@example.com/", "http://A@example.com/"),
    ("http://[2001:0DB8:0:0::7]/", "http://[2001:db8::7]/"),
    ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"),
    ("http://[::FFFF:C000:0201]/", "http://[::ffff:192.0.2.1]/"),
    ("file:///a%2Fb%2fc", "file:///a%2Fb%2Fc"),
    ("file:///%7Euser", "file:///~user"),
    ("file:///a/%2e%2E/b", "file:///b"),
    ("file:///a?x=%7e&y=%2f", "file:///a?x=~&y=%2F"),
    # RFC 3986 §5.4: what is left of these after their base is merged.
    ("http://a/b/c/./g", "http://a/b/c/g"),
    ("http://a/b/c/../g", "http://a/b/g"),
    ("http://a/b/c/../../../g", "http://a/g"),
    ("http://a/b/c/g/.", "http://a/b/c/g/"),
    ("http://a/b/c/..", "http://a/b/"),
    ("http://a/..", "http://a/"),
    ("http://a/b/.g/..g/g./g..", "http://a/b/.g/..g/g./g.."),
    ("x:mid/content=5/../6", "x:mid/6"),
    ("x:../a", "x:a"),
    ("x:./../a/..", "x:/"),
    ("x:a/../b", "x:/b"),
]

NO_URIS = [
    "",
    "a",
    "/a/b",
    "//host/a",
    "a/b:c",
    "1x:a",
    "é://a",
    "file:///é",
    "file:///a b",
    "file:///a\n",
    "file:///a\\b",
    'file:///"',
    "file:///{a}",
    "file:///%",
    "file:///%zz",
    "file:///%2",
    "file:///[a]",
    "http://a/?[",
    "http://a/#b",
    "x:#",
    "x:",
    "x:.",
    "x:/.//a",
    "http:///a",
    "http://:80/",
    "http://user@/",
    "http://a:b/",
    "http://a:123456/",
    "http://a@b@c/",
    "http://[::1/",
    "http://::1/",
    "http://[]/",
    "http://[1.2.3.4]/",
    "http://[v1.x]/",
    "http://[::1]x/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[fe80::1%251]/",
]


@pytest.mark.parametrize("uri", NORMAL)
def test_a_normal_uri_is_taken_as_it_is(uri: str) -> None:
    """An absolute URI in normal form is its own normal form."""
    assert check_uri(uri) == uri
    assert normal_form(uri) == uri


@pytest.mark.parametrize(("spelling", "normal"), EQUIVALENT)
def test_every_other_spelling_is_refused_with_the_normal_one(spelling: str, normal: str) -> None:
    """RFC 3986-equivalent spellings have one normal form, and the error says which."""
    assert normal_form(spelling) == normal
    if spelling != normal:
        with pytest.raises(ConfigurationError, match=re.escape(repr(normal))):
            check_uri(spelling)


@pytest.mark.parametrize("text", NO_URIS)
def test_what_is_no_absolute_uri_is_refused(text: str) -> None:
    """Relative references, fragments, other characters and odd hosts are refused."""
    assert normal_form(text) is None
    with pytest.raises(ConfigurationError):
        check_uri(text)


def test_a_zone_identifier_is_called_by_its_name() -> None:
    """The refusal of an IPv6 zone identifier says what is wrong."""
    with pytest.raises(ConfigurationError, match="zone identifier"):
        check_uri("http://[fe80::1%25eth0]/")


@pytest.mark.parametrize("value", [None, b"x:a", 1])
def test_what_is_no_text_is_no_uri(value: object) -> None:
    """A URI is a str."""
    with pytest.raises(ConfigurationError, match="str"):
        check_uri(value)


@given(st.text("xX:/.?%27eE2Ff@[]-~a", max_size=20).map(lambda text: "x:" + text))
def test_a_normal_form_is_normal(uri: str) -> None:
    """Normalizing twice changes nothing more."""
    normal = normal_form(uri)
    if normal is not None:
        assert normal_form(normal) == normal
        assert check_uri(normal) == normal


MATCHES: list[tuple[str, str, dict[str, str] | None]] = [
    ("x://{a}", "x://1", {"a": "1"}),
    ("x://{a}", "x://", None),
    ("x://{a}", "x://1/", None),
    ("x://{a}", "x://1/2", None),
    ("x://{a}", "X://1", None),
    ("x://{a}", "y://1", None),
    ("greeting://{name}", "greeting://Alice", {"name": "Alice"}),
    ("x://h/{a}/b/{c}", "x://h/1/b/2", {"a": "1", "c": "2"}),
    ("x://h/{a}/b/{c}", "x://h/1/2/b/3", None),
    ("x://h/{a}/b/{c}", "x://h//b/3", None),
    ("x://h/{a}/end", "x://h/end", None),
    ("x:{a.b_c1}", "x:v", {"a.b_c1": "v"}),
    # Values are decoded once.
    ("x://h/{a}", "x://h/a%20b", {"a": "a b"}),
    ("x://h/{a}", "x://h/a%2Fb", {"a": "a/b"}),
    ("x://h/{a}", "x://h/a%2fb", {"a": "a/b"}),
    ("x://h/{a}", "x://h/%2541", {"a": "%41"}),
    ("x://h/{a}", "x://h/%252F", {"a": "%2F"}),
    ("x://h/{a}", "x://h/%C3%A9%E2%82%AC", {"a": "é€"}),
    ("x://h/{a}", "x://h/a+b", {"a": "a+b"}),
    ("x://h/{a}", "x://h/%3F%23%26%2C", {"a": "?#&,"}),
    ("x://h/{a}", "x://h/%00", {"a": "\x00"}),
    # What JavaScript's encodeURIComponent leaves, and what people leave raw in a path.
    ("x://h/{a}", "x://h/it's(1)!*~", {"a": "it's(1)!*~"}),
    ("x://h/{a}", "x://h/me@example.com:1;$=", {"a": "me@example.com:1;$="}),
    # No variable takes these.
    ("x://h/{a}", "x://h/1?2", None),
    ("x://h/{a}", "x://h/1#2", None),
    ("x://h/{a}", "x://h/1&2", None),
    ("x://h/{a}", "x://h/1,2", None),
    ("x://h/{a}", "x://h/[1]", None),
    ("x://h/{a}", "x://h/a b", None),
    ("x://h/{a}", "x://h/é", None),
    ("x://h/{a}", "x://h/\ue041", None),
    ("x://h/{a}", "x://h/%", None),
    ("x://h/{a}", "x://h/%4", None),
    ("x://h/{a}", "x://h/%zz", None),
    ("x://h/{a}", "x://h/%FF", None),
    ("x://h/{a}", "x://h/%C3", None),
    ("x://h/{a}", "x://h/%ED%A0%80", None),
    # Dot segments are gone before a URI is used, so they name nothing here.
    ("x://h/{a}", "x://h/.", None),
    ("x://h/{a}", "x://h/..", None),
    ("x://h/{a}", "x://h/%2e%2E", None),
    ("x://h/{a}/b", "x://h/../b", None),
    ("x:{a}/b", "x:../b", None),
    ("x://h/.{a}", "x://h/..", None),
    ("x://h/{a}", "x://h/...", {"a": "..."}),
    ("x://h/{a}", "x://h/..%2Fetc", {"a": "../etc"}),
    ("x://h/q?a={a}", "x://h/q?a=..", {"a": ".."}),
    # Several variables in one segment, or in a query.
    ("x://h/{name}.{ext}", "x://h/a.tar.gz", {"name": "a.tar", "ext": "gz"}),
    ("x://h/{name}.{ext}", "x://h/a.", None),
    ("x://h/{name}.{ext}", "x://h/.a", None),
    ("x://{y}-{m}-{d}", "x://2026-11-05", {"y": "2026", "m": "11", "d": "05"}),
    ("x://{y}-{m}-{d}", "x://2026-11", None),
    ("x://{lat},{lon}", "x://1.5,-2", {"lat": "1.5", "lon": "-2"}),
    ("x://h/s?q={q}&n={n}", "x://h/s?q=a%26n%3D1&n=2", {"q": "a&n=1", "n": "2"}),
    ("x://h/s?q={q}&n={n}", "x://h/s?q=1&n=2&n=3", None),
    ("x:{a}2{b}", "x:12%2F", {"a": "1", "b": "/"}),
    ("x:{a}ab{b}", "x:1abab", {"a": "1", "b": "ab"}),
    # A literal matches its equivalent spellings, too.
    ("x://h/~u/{a}%20/c", "x://h/%7Eu/1%20/c", {"a": "1"}),
    ("x://h/{a}%2F", "x://h/1%2f", {"a": "1"}),
]


@pytest.mark.parametrize(("template", "uri", "variables"), MATCHES)
def test_a_uri_is_matched(template: str, uri: str, variables: dict[str, str] | None) -> None:
    """A URI gives the decoded variables, or nothing."""
    assert UriTemplate(template).match(uri) == variables


@pytest.mark.parametrize(
    "template",
    [
        *["x:{+a}", "x:{#a}", "x:{.a}", "x:{/a}", "x:{;a}", "x:{?a}", "x:{&a}"],
        *["x:{=a}", "x:{,a}", "x:{!a}", "x:{@a}", "x:{|a}"],
        *["x:{a:3}", "x:{a*}", "x:{a,b}", "x:{}", "x:{ a}", "x:{a }", "x:{a-b}", "x:{%41}"],
        *["x:{.}", "x:{a.}", "x:{a..b}", "x:{é}", "x:{a\n}"],
        *["x:{a", "x:a}", "x:{a}}", "x:{{a}}", "x:{a}{"],
        *["x:{a}{b}", "x:a{b}{c}d", "x:{a}/{a}"],
        *["", "a", "{a}", "/{a}", "{a}:b", "{a}://b", "x{a}:b", "{a}x:b"],
        *["X:{a}", "x:a/../{a}", "x://H/{a}", "x:%41{a}", "x:%2f{a}", "http://h:80/{a}"],
        *["x:é{a}", "x:a b{a}", "x:{a}#{b}", "x:{a}#b", "http://[fe80::1%25e]/{a}"],
        *["x:a", "x://a/b"],
    ],
)
def test_a_template_beyond_level_1_is_refused(template: str) -> None:
    """Operators, modifiers, lists, odd braces, no or unclear variables, no normal absolute URI."""
    with pytest.raises(ConfigurationError):
        UriTemplate(template)


def test_a_template_tells_what_it_is() -> None:
    """The template and its variables can be read, and `repr` shows it."""
    template = UriTemplate("x://{b}/{a}")
    assert template.template == "x://{b}/{a}"
    assert template.variables == ("b", "a")
    assert repr(template) == "UriTemplate('x://{b}/{a}')"


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
def test_a_template_matches_what_it_expands_to(values: list[str]) -> None:
    """For values of any characters, the URI of a level 1 expansion gives the values back."""
    text = "".join(f"/{{v{number}}}" for number in range(len(values)))
    try:
        uri = "x://h" + "".join("/" + quote(value, safe="") for value in values)
    except UnicodeEncodeError:  # A lone surrogate has no expansion.
        return
    expected: Any = {f"v{number}": value for number, value in enumerate(values)}
    if {".", ".."} & set(values):
        expected = None
    assert UriTemplate("x://h" + text).match(uri) == expected


PIECES = st.lists(st.sampled_from(["a", "b", "-", "/", "ab", "{}"]), min_size=1, max_size=5)
TEMPLATES = PIECES.map(lambda pieces: "x:" + "".join(pieces)).filter(
    lambda text: "{}" in text and "{}{}" not in text and not text.startswith("x://")
)


def named(text: str) -> UriTemplate:
    """Return a template whose variables get names."""
    numbers = itertools.count()
    return UriTemplate(re.sub(r"\{\}", lambda _: f"{{v{next(numbers)}}}", text))


@given(TEMPLATES, st.text("ab-/", max_size=9))
def test_matching_is_that_of_a_regular_expression(text: str, rest: str) -> None:
    """Variables are greedy groups of a regular expression, found without its backtracking."""
    pattern = "([ab-]+)".join(re.escape(literal) for literal in text.split("{}"))
    reference = re.fullmatch(pattern, "x:" + rest)
    variables = named(text).match("x:" + rest)
    assert (variables and tuple(variables.values())) == (reference and reference.groups())


@given(TEMPLATES, TEMPLATES)
def test_overlapping_is_that_a_uri_matches_both(left: str, right: str) -> None:
    """Two templates overlap if, and only if, there is a URI that both match."""
    one, other = named(left), named(right)
    # A shortest witness is no longer than both templates together; each variable counts for one.
    longest = min(6, len(left.replace("{}", "v")) + len(right.replace("{}", "v")) - 4)
    witness = any(
        one.match(uri) is not None and other.match(uri) is not None
        for length in range(longest + 1)
        for uri in map("x:{}".format, map("".join, itertools.product("ab-/", repeat=length)))
    )
    if witness:
        assert one.overlaps(other)
    elif longest < 6:
        assert not one.overlaps(other)
    assert one.overlaps(other) == other.overlaps(one)
    assert one.overlaps(one)


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        ("x://{a}", "x://{b}", True),
        ("x://{a}", "y://{a}", False),
        ("x://{a}", "x://{a}/{b}", False),
        ("x://a/{b}", "x://{a}/b", True),
        ("x://a/{b}", "x://b/{c}", False),
        ("x://{a}/x", "x://{a}/y", False),
        ("x://{a}.txt", "x://{a}.md", False),
        ("x://{a}.txt", "x://{a}t", True),
        ("x://{a}-{b}", "x://{a}.{b}", True),
        ("x://{a}?q={q}", "x://{a}", False),
        ("x://{a}?q={q}", "x://{a}?p={q}", False),
        ("x://h/a{a}", "x://h/{a}b", True),
        ("x://h/%20{a}", "x://h/{a}%2F", True),
        ("x://h/{a}%20", "x://h/{a}%2F", False),
        ("x://h/{a}aab", "x://h/{a}ab", True),
    ],
)
def test_overlaps(left: str, right: str, overlap: bool) -> None:
    """Templates overlap that share a URI, whatever their variables are called."""
    assert UriTemplate(left).overlaps(UriTemplate(right)) is overlap
    assert UriTemplate(right).overlaps(UriTemplate(left)) is overlap


def test_matching_does_not_backtrack() -> None:
    """A hostile URI against many variables in one segment ends, long as it is."""
    template = UriTemplate("x:" + "-".join(f"{{v{number}}}" for number in range(20)))
    assert template.match("x:" + "-" * 200_000 + "/") is None
    assert template.match("x:" + "a-" * 100_000 + "a") is not None
