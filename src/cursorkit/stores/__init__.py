"""Stores keep the objects of snapshots. See `cursorkit.stores.base` for the protocol."""
