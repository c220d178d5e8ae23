"""Templates: named instructions for the model that writes a managed context.

A template is a markdown file with placeholders. ``TemplateLoader`` finds it by name, ``render``
fills it, ``parse_output`` and ``sections_found`` look at what the model made of it.
"""

from __future__ import annotations

from turnmill_worker.templates.loader import (
    Listed,
    TemplateLoader,
    built_in_templates,
    read_template,
    template_dirs,
)
from turnmill_worker.templates.template import (
    BUILT_IN,
    PLACEHOLDERS,
    Rendered,
    Template,
    parse_output,
    render,
    sections_found,
    warnings,
)

__all__ = [
    "BUILT_IN",
    "PLACEHOLDERS",
    "Listed",
    "Rendered",
    "Template",
    "TemplateLoader",
    "built_in_templates",
    "parse_output",
    "read_template",
    "render",
    "sections_found",
    "template_dirs",
    "warnings",
]
