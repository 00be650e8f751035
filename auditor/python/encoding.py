"""The text of a Python file, as Python itself would decode it."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple


class Unread(NamedTuple):
    """Why a file can't be read, in words for people, and where. Line and column count from 1."""

    reason: str
    line: int = 1
    column: int = 1


_COOKIE = re.compile(rb"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")

#: Marks at the beginning of files that were not saved as UTF-8.
_WIDE = {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
}


def decode(data: bytes) -> str | Unread:
    """The text of a file with every line end a `\\n`, without its byte order mark."""
    for mark, name in reversed(_WIDE.items()):
        if data.startswith(mark):
            return Unread(f"saved as {name}, which Python does not read")
    if b"\0" in data:
        return _at("contains NUL bytes", data, data.index(b"\0"))
    text = _decode(data)
    if isinstance(text, str) and "\r" in text:
        return text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _decode(data: bytes) -> str | Unread:
    cookie = _COOKIE.match(data.removeprefix(codecs.BOM_UTF8)[:1000])
    encoding = cookie[1].decode("ascii") if cookie else "utf-8"
    if data.startswith(codecs.BOM_UTF8):
        if not _is_utf8(encoding):
            return Unread(f"begins with the byte order mark of UTF-8, while its coding line says {encoding}")
        data = data[len(codecs.BOM_UTF8) :]
    try:
        text = data.decode(encoding)
        text.encode()  # some encodings decode to lone surrogates, which no parser takes
    except UnicodeDecodeError as error:
        reason = (
            f"not {encoding}, as its coding line says" if cookie else "not UTF-8, and no coding line says otherwise"
        )
        return _at(reason, data, error.start)
    except LookupError:
        return Unread(f"unknown encoding: {encoding}")
    except Exception:  # a codec may raise anything
        return Unread(f"not {encoding}, as its coding line says")
    return text


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    except LookupError:
        return False


def _at(reason: str, data: bytes, offset: int) -> Unread:
    before = re.split(rb"\r\n|\r|\n", data[:offset])
    return Unread(reason, len(before), len(before[-1].decode(errors="replace")) + 1)
