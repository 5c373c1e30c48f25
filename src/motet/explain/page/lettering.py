"""Sets text in boxes: breaks it into lines, and says how wide they are."""

from __future__ import annotations

import re

# Widths of the letters from space to ~ in thousandths of their size, by Helvetica's metrics.
WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    *(556,) * 10, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
OTHER_WIDTH = 600  # of a letter that is not listed
WIDE_WIDTH = 1000  # of one of East Asia
FIRST_WIDE = 0x2E80
ROOM = 1.07  # other fonts are wider
PIECE = re.compile(r"[^\s_]+[\s_]*|[\s_]+")
BETWEEN_ITEMS = re.compile(r"(, | or )")


def measure_text(text: str, size: float) -> float:
    """Return how wide a line of text is at a font size. A page sets it to exactly that width in any font."""
    return sum(map(_measure_letter, text)) * size * ROOM / 1000


def _measure_letter(letter: str) -> int:
    at = ord(letter) - 32
    if 0 <= at < len(WIDTHS):
        return WIDTHS[at]
    return WIDE_WIDTH if ord(letter) >= FIRST_WIDE else OTHER_WIDTH


def wrap_text(text: str, most: int, lines: int) -> list[str]:
    """Break text into lines of at most so many letters, after spaces and underscores where possible.

    Of a list that is too long its last items are left out and counted; of anything else the end, which an ellipsis
    shows.
    """
    found = _break_lines(text, most)
    if len(found) <= lines:
        return found
    items = BETWEEN_ITEMS.split(text)  # every second one stands between two
    for end in range(len(items) - 2, 0, -2):
        shorter = _break_lines(f"{''.join(items[:end])} and {(len(items) - end) // 2} more", most)
        if len(shorter) <= lines:
            return shorter
    return [*found[: lines - 1], f"{found[lines - 1][: most - 1]}…"]


def _break_lines(text: str, most: int) -> list[str]:
    pieces = [piece[at : at + most] for piece in PIECE.findall(text) for at in range(0, len(piece), most)]
    found = [""]
    for piece in pieces:
        if found[-1] and len(found[-1]) + len(piece.rstrip()) > most:
            found.append("")
        found[-1] += piece
    return [line.strip() for line in found]
