"""The query language: text or Python to the model, and the model to text."""

from motet.language.html import show_in_notebooks
from motet.language.parser import parse, read
from motet.language.printer import to_text

__all__ = ["parse", "read", "to_text"]

show_in_notebooks()
