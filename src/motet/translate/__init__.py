"""Front doors: queries written for other systems, read into our model where they mean the same."""

from motet.translate.doors import SOURCES, translate
from motet.translate.outcome import Translation

__all__ = ["SOURCES", "Translation", "translate"]
