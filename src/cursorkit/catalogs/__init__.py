"""Ordered catalogs for servers whose host has none: tools, prompts, resources and templates.

Skills from a directory have a module of their own, `cursorkit.catalogs.skills`, and an extra.
"""

from cursorkit.catalogs.base import (
    CacheHint,
    Catalog,
    Entry,
    Listeners,
    Prompts,
    Resources,
    Skills,
    Tools,
)
from cursorkit.catalogs.registries import PromptCatalog, ToolCatalog
from cursorkit.catalogs.resources import (
    CompositeResources,
    ResourceCatalog,
    ResourceTemplateCatalog,
)
from cursorkit.catalogs.templates import UriTemplate

__all__ = [
    "CacheHint",
    "Catalog",
    "CompositeResources",
    "Entry",
    "Listeners",
    "PromptCatalog",
    "Prompts",
    "ResourceCatalog",
    "ResourceTemplateCatalog",
    "Resources",
    "Skills",
    "ToolCatalog",
    "Tools",
    "UriTemplate",
]
