"""URIs in their one normal form (RFC 3986 §6.2.2), so that equal resources have equal names."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from cursorkit.errors import ConfigurationError

__all__ = ["check_uri", "decode_unreserved", "normal_form"]

_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?://(?P<authority>[^/?]*))?"
    r"(?P<path>[^?\[\]]*)(?P<query>\?[^\[\]]*)?"
)
_AUTHORITY: Final = re.compile(
    r"(?P<userinfo>[^@\[\]]*@)?(?P<host>\[[^\[\]]*\]|[^:@\[\]]*)(?::(?P<port>[0-9]{0,5}))?"
)
_LEADING_DOTS: Final = re.compile(r"(?:\.\.?/)*(?:\.\.?$)?")
_SEGMENTS: Final = re.compile(r"/[^/]*|^[^/]+")
_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_WEB_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}
"""Schemes whose own rules are known: their default port, and that an empty path is "/"."""


class _NotNormalizableError(ValueError):
    """Says what is wrong with a URI; never holds any of it."""


def check_uri(uri: object) -> str:
    """Return `uri` if it is an absolute URI in its normal form.

    Raises:
        ConfigurationError: If it is not; the message gives the normal form where there is one.
    """
    if not isinstance(uri, str):
        raise ConfigurationError(f"a URI is a str, not {type(uri).__name__}")
    try:
        normal = _normalize(uri)
    except _NotNormalizableError as problem:
        raise ConfigurationError(f"{uri!a} cannot name a resource: {problem}") from None
    if normal != uri:
        raise ConfigurationError(f"{uri!r} is not in normal form (RFC 3986 §6.2); give {normal!r}")
    return uri


def normal_form(uri: str) -> str | None:
    """Return the normal form of a URI, None if it has none, or is not absolute.

    Scheme and host in lower case, percent-encoding in upper case and only where it is needed, no
    dot segments, no empty port; for http, https, ws and wss no default port, and "/" for an empty
    path; IPv6 addresses as RFC 5952 writes them.
    """
    try:
        return _normalize(uri)
    except _NotNormalizableError:
        return None


def decode_unreserved(text: str) -> str:
    """Return text with percent-encoding in upper case, and none of unreserved characters."""
    return _TRIPLET.sub(_decoded, text)


def _decoded(triplet: re.Match[str]) -> str:
    character = chr(int(triplet[0][1:], 16))
    return character if character in _UNRESERVED else triplet[0].upper()


def _normalize(uri: str) -> str:
    if "#" in uri:
        raise _NotNormalizableError("it has a fragment, which is never sent to a server")
    if _CHARACTERS.fullmatch(uri) is None:
        raise _NotNormalizableError("it has a character that must be percent-encoded")
    parts = _PARTS.fullmatch(uri)
    if parts is None:
        raise _NotNormalizableError("it is not an absolute URI, which begins with a scheme")
    scheme, path = parts["scheme"].lower(), _without_dots(decode_unreserved(parts["path"]))
    query = decode_unreserved(parts["query"] or "")
    if parts["authority"] is None:
        if not path + query:
            raise _NotNormalizableError("it is a scheme and nothing else")
        if path.startswith("//"):
            raise _NotNormalizableError("its path would be taken for an authority")
        return f"{scheme}:{path}{query}"
    if scheme in _WEB_PORTS:
        path = path or "/"
    return f"{scheme}://{_authority(scheme, parts['authority'])}{path}{query}"


def _authority(scheme: str, authority: str) -> str:
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _NotNormalizableError("its authority is no host with an optional user and port")
    host, port = _host(parts["host"]), parts["port"]
    if scheme in _WEB_PORTS and not host:
        raise _NotNormalizableError(f"{scheme} needs a host")
    if port:
        port = str(int(port))
    ending = f":{port}" if port and port != _WEB_PORTS.get(scheme) else ""
    return decode_unreserved(parts["userinfo"] or "") + host + ending


def _host(host: str) -> str:
    if not host.startswith("["):
        # Lower case, but for percent-encoding.
        return decode_unreserved(decode_unreserved(host).lower())
    if "%" in host:
        raise _NotNormalizableError("an IPv6 zone identifier means something on one machine only")
    try:
        address = IPv6Address(host[1:-1])
    except AddressValueError:
        raise _NotNormalizableError("what is in brackets is no IPv6 address") from None
    # Python versions disagree on how to write a mapped address.
    mapped = address.ipv4_mapped
    return f"[{address.compressed}]" if mapped is None else f"[::ffff:{mapped}]"


def _without_dots(path: str) -> str:
    """Return a path without dot segments (RFC 3986 §5.2.4)."""
    segments: list[str] = _SEGMENTS.findall(_LEADING_DOTS.sub("", path, count=1))
    kept: list[str] = []
    for segment in segments:
        if segment == "/..":
            del kept[-1:]
        elif segment != "/.":
            kept.append(segment)
    if segments and segments[-1] in {"/.", "/.."}:
        kept.append("/")
    return "".join(kept)
