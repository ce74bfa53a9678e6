"""Glue to frameworks, each imported by its own name; it names its extra if that is missing."""
