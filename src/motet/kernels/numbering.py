"""Number distinct rows of words, and distinct texts, in order of appearance, from one call to the next."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from motet.kernels.arrays import Ints, SmallInts
from motet.kernels.jit import inner, kernel

Bytes = NDArray[np.uint8]
Array = TypeVar("Array", bound=NDArray[Any])

FEWEST = 64


class RowIndex:
    """Numbers for distinct rows of so many words each. The first `count` rows of `words` are those known."""

    def __init__(self, width: int) -> None:
        self.words = np.zeros((FEWEST, width), np.int64)
        self.table = np.full(4 * FEWEST, -1, np.int64)
        self.count = 0

    def number(self, rows: Ints) -> Ints:
        """Return the number of each row, numbering new ones. Expected O(rows), amortised."""
        wanted = self.count + len(rows)
        if wanted > len(self.words):
            self.words = np.concatenate((self.words[: self.count], np.zeros((2 * wanted, rows.shape[1]), np.int64)))
            self.table = np.full(_table_size(len(self.words)), -1, np.int64)
            _fill_table(self.words[: self.count], self.table)
        numbers = np.empty(len(rows), np.int64)
        self.count = _number_rows(rows, self.words, self.table, self.count, numbers)
        return numbers


class TextIndex:
    """Numbers for distinct texts, whose bytes lie in one buffer, one after the other."""

    def __init__(self) -> None:
        self.bytes = np.zeros(16 * FEWEST, np.uint8)
        self.begin = np.zeros(FEWEST + 1, np.int64)
        self.table = np.full(4 * FEWEST, -1, np.int64)
        self.count = 0

    def number(self, begin: Ints | SmallInts, data: Bytes) -> Ints:
        """Return the number of each text: text i is data[begin[i]:begin[i + 1]]. Expected O(bytes), amortised."""
        size, wanted = int(begin[-1] - begin[0]), self.count + len(begin) - 1
        used = int(self.begin[self.count])
        if used + size > len(self.bytes):
            self.bytes = np.concatenate((self.bytes[:used], np.zeros(2 * (used + size), np.uint8)))
        if wanted >= len(self.begin):
            self.begin = np.concatenate((self.begin[: self.count + 1], np.zeros(2 * wanted, np.int64)))
            self.table = np.full(_table_size(len(self.begin)), -1, np.int64)
            _fill_text_table(self.begin[: self.count + 1], self.bytes, self.table)
        numbers = np.empty(len(begin) - 1, np.int64)
        begin, data = _as_read_only(begin), _as_read_only(data)
        self.count = _number_texts(begin, data, self.begin, self.bytes, self.table, self.count, numbers)
        return numbers

    def list_texts(self, first: int) -> list[str]:
        """Return the texts from a number on."""
        ends = self.begin[first : self.count + 1].tolist()
        return [self.bytes[begin:end].tobytes().decode() for begin, end in pairwise(ends)]


def _as_read_only(array: Array) -> Array:
    """View an array as one that is not written to, as most of Arrow's are: a kernel is compiled once for all."""
    view = array.view()
    view.flags.writeable = False
    return view


def _table_size(rows: int) -> int:
    return 1 << (2 * rows).bit_length()


@inner
def _place_row(rows: Ints, row: int, words: Ints, table: Ints) -> int:
    """Return the place of a row in the table, or of the free entry where it would be. Expected O(words)."""
    mixed = np.int64(0)
    for word in range(rows.shape[1]):
        value = rows[row, word]
        mixed = (mixed ^ ((value ^ (value >> 31)) & 0x7FFFFFFF)) * 0x1E3779B1
        mixed = (mixed ^ (mixed >> 29)) & 0x7FFFFFFF  # in full width also where nothing is compiled
    mask = table.size - 1
    at = mixed & mask
    while table[at] >= 0:
        is_same = True
        for word in range(rows.shape[1]):
            is_same = is_same and words[table[at], word] == rows[row, word]
        if is_same:
            break
        at = (at + 1) & mask
    return at


@kernel
def _number_rows(rows: Ints, words: Ints, table: Ints, count: int, numbers: Ints) -> int:
    """Assign numbers to rows; return how many are known then. Expected O(rows x words)."""
    for row in range(rows.shape[0]):
        at = _place_row(rows, row, words, table)
        if table[at] < 0:
            table[at] = count
            for word in range(rows.shape[1]):
                words[count, word] = rows[row, word]
            count += 1
        numbers[row] = table[at]
    return count


@kernel
def _fill_table(words: Ints, table: Ints) -> None:
    """Enter known rows into an empty table. Expected O(rows x words)."""
    for row in range(words.shape[0]):
        table[_place_row(words, row, words, table)] = row


@inner
def _place_text(
    begin: Ints,
    data: Bytes,
    text: int,
    known: Ints,
    stored: Bytes,
    table: Ints,
) -> int:
    """Return the place of a text in the table, or of the free entry where it would be. Expected O(bytes)."""
    first, size = begin[text], begin[text + 1] - begin[text]
    mixed = np.int64(size)
    for at in range(size):
        mixed = (mixed ^ np.int64(data[first + at])) * 0x01000193
        mixed = (mixed ^ (mixed >> 23)) & 0x7FFFFFFF
    mask = table.size - 1
    place = mixed & mask
    while table[place] >= 0:
        other = table[place]
        is_same = known[other + 1] - known[other] == size
        at = np.int64(0)
        while is_same and at < size:
            is_same = stored[known[other] + at] == data[first + at]
            at += 1
        if is_same:
            break
        place = (place + 1) & mask
    return place


@kernel
def _number_texts(
    begin: Ints,
    data: Bytes,
    known: Ints,
    stored: Bytes,
    table: Ints,
    count: int,
    numbers: Ints,
) -> int:
    """Assign numbers to texts; return how many are known then. Expected O(bytes)."""
    for text in range(begin.size - 1):
        at = _place_text(begin, data, text, known, stored, table)
        if table[at] < 0:
            table[at] = count
            size = begin[text + 1] - begin[text]
            for byte in range(size):
                stored[known[count] + byte] = data[begin[text] + byte]
            known[count + 1] = known[count] + size
            count += 1
        numbers[text] = table[at]
    return count


@kernel
def _fill_text_table(known: Ints, stored: Bytes, table: Ints) -> None:
    """Enter known texts into an empty table. Expected O(bytes)."""
    for text in range(known.size - 1):
        table[_place_text(known, stored, text, known, stored, table)] = text
