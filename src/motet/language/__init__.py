"""The query language: text or Python to the model, and the model to text."""

from typing import TYPE_CHECKING, Any

from motet.language.printer import show_in_notebooks, to_text

if TYPE_CHECKING:
    from motet.language.parser import parse, read

__all__ = ["parse", "read", "to_text"]

show_in_notebooks()


def __getattr__(name: str) -> Any:
    """Load the parser when it is first used: printing needs neither it nor its grammar."""
    if name not in ("parse", "read"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from motet.language import parser

    return getattr(parser, name)
