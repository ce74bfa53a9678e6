"""Codecs turn a position into a cursor and back. See `cursorkit.codecs.base` for the protocol."""
