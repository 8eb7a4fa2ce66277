"""How much memory a Parquet file takes once it is unpacked, counted before anything of it is unpacked.

Polars does not tell. So this module reads the footer and the header of every page, and skips what the pages hold.
A page cannot unpack to more bytes than its header says: a reader gives it a buffer of that size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

LARGEST_FOOTER = 2**26  # bytes
_PAGE_HEADERS = (2**13, 2**24)  # bytes that are read for one: rarely, a long smallest or largest value is in it
_DEEPEST = 16  # structures within structures; a footer needs about six
_ENDS_WITH = b"PAR1"
_BYTE_ARRAY, _FIXED_LENGTH = 6, 7  # types of values
_DELTA_BYTE_ARRAY = 7  # an encoding that stores what a text shares with the one before it only once
_ABOUT = {0: (5, 2), 2: (7, 2), 3: (8, 4)}  # by the kind of a page: the field that describes it, its encoding in there
_DICTIONARY = 2

Fields = dict[int, Any]


def unpacked_sizes(file: BinaryIO) -> Iterator[int]:
    """Yield, for each page, the bytes that it and its values take in memory; ValueError if the sizes cannot be true."""
    size = file.seek(0, os.SEEK_END)
    footer = _footer(file, size)
    widths = [_width(each) for each in footer[2][1:] if not each.get(5)]  # without the groups of columns
    left = size
    if footer[3] != sum(group[3] for group in footer[4]):
        raise ValueError("its parts have another number of rows than it claims")
    for group in footer[4]:
        if len(group[1]) != len(widths):
            raise ValueError(f"it has {len(widths)} columns, and a part of it has {len(group[1])}")
        for width, chunk in zip(widths, group[1], strict=True):
            if 1 in chunk or 3 not in chunk:
                raise ValueError("some of its columns are encrypted or in another file")
            about = chunk[3]
            start, packed = about.get(11, about[9]), about[7]
            left -= packed
            if about[5] < group[3]:
                raise ValueError(f"it claims {group[3]:,} rows and has {about[5]:,} values in a column")
            if packed < 0 or start < 0 or start + packed > size or left < 0:
                raise ValueError("its columns claim to be larger than the file")
            yield from _pages(file, start, start + packed, values=about[5], width=width)


def _footer(file: BinaryIO, size: int) -> Fields:
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _ENDS_WITH or length > size - 12:
        raise ValueError("it does not end as Parquet files do")
    if length > LARGEST_FOOTER:
        raise ValueError(f"its footer has {length:,} bytes, {LARGEST_FOOTER:,} are allowed")
    file.seek(size - 8 - length)
    return _Thrift(file.read(length)).struct()


def _width(leaf: Fields) -> int:
    """The bytes of one value in memory, without those of its text."""
    if leaf[1] == _FIXED_LENGTH:
        return max(int(leaf[2]), 8)
    return 16 if leaf[1] == _BYTE_ARRAY else 8


def _pages(file: BinaryIO, start: int, end: int, *, values: int, width: int) -> Iterator[int]:
    """The pages of one column in one part of the file."""
    while start < end:
        page, length = _page_header(file, start, end)
        unpacked, packed = page[2], page[3]
        field, place = _ABOUT[page[1]]
        held, encoding = page[field][1], page[field][place]
        start += length + packed
        if min(unpacked, packed, held) < 0 or start > end:
            raise ValueError("its pages claim to be larger than the file")
        if page[1] != _DICTIONARY:
            values -= held
        # Delta-encoded texts may each be as long as the page.
        yield unpacked * (max(held, 1) if encoding == _DELTA_BYTE_ARRAY else 1) + held * width
    if values > 0:
        raise ValueError("its pages have fewer values than it claims")


def _page_header(file: BinaryIO, start: int, end: int) -> tuple[Fields, int]:
    """With its length."""
    for most in _PAGE_HEADERS:
        file.seek(start)
        header = _Thrift(file.read(min(most, end - start)))
        with suppress(ValueError):
            return header.struct(), header.at
    raise ValueError("its footer leads to a page that is none")


class _Thrift:
    """A structure in Thrift's compact protocol, as numbers of fields and their values."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> Fields:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        fields: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            if number in fields:
                raise ValueError("its footer has a field twice")
            fields[number] = self._value(head & 15, depth) if head & 15 > 2 else head & 15 == 1
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # truth values, which take a byte in a list, and bytes
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth + 1)
        raise ValueError(f"its footer has a value of an unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if depth > _DEEPEST or count > len(self._data) - self.at:  # each value takes a byte or more
            raise ValueError("its footer has a list that is longer than the footer")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise ValueError("its footer or the header of a page is cut short")
        self.at += count
        return self._data[self.at - count : self.at]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("its footer has a number of more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
