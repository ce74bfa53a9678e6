"""Paginators turn a list and a cursor into a page. See `cursorkit.paginators.page`."""
