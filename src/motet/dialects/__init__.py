"""Translates queries written for other systems into our model, where they mean the same."""

from motet.dialects.registry import SOURCES, translate
from motet.dialects.translation import Translation

__all__ = ["SOURCES", "Translation", "translate"]
