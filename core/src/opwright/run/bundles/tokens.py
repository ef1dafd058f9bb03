"""The tokens of a bundle: joins them over batches, and writes them as bytes.

An int is the same for all batches; an `Affine` depends on the batch. Strings and floats are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from opwright.describe.wire import varint
from opwright.lowering.layout.recording import About, Size
from opwright.records import NamedTuple

_INT, _AFFINE, _TEXT, _SAME_TEXT, _FLOAT = range(5)  # as in core/native/runtime/bundle/tokens.cc


class Affine(NamedTuple):
    """``step * n + base`` for a batch of n."""

    step: int
    base: int


def join(first: Sequence[Any], n: int, last: Sequence[Any], m: int) -> list[Any] | None:
    """Return the tokens that equal `first` for a batch of n and `last` for a batch of m > n.

    None if no such tokens exist.
    """
    if len(first) != len(last):
        return None
    joined: list[Any] = []
    for one, other in zip(first, last, strict=True):
        if one.__class__ is not other.__class__:
            return None
        if one == other and (one or repr(one) == repr(other)):  # 0.0 and -0.0 are equal
            joined.append(one)
            continue
        if not isinstance(one, (Size, About)):
            return None
        step, rest = divmod(other - one, m - n)
        if rest and isinstance(one, Size):
            return None
        joined.append(Affine(step, one - step * n))
    return joined


def matches(joined: Sequence[Any], n: int, tokens: Sequence[Any]) -> bool:
    """Whether joined tokens, for a batch of n, equal the given tokens."""
    if len(joined) != len(tokens):
        return False
    for one, token in zip(joined, tokens, strict=True):
        value = one.step * n + one.base if one.__class__ is Affine else one
        same = value == token and (one.__class__ is Affine or one.__class__ is token.__class__)
        if not same and not isinstance(token, About):
            return False
    return True


def encode(tokens: Iterable[Any]) -> bytes:
    """Return tokens as bytes; a repeated string is written as its index."""
    data = bytearray()
    texts: dict[bytes, int] = {}
    for token in tokens:
        if isinstance(token, Affine):
            data.append(_AFFINE)
            data += _signed(token.step) + _signed(token.base)
        elif isinstance(token, float):
            data.append(_FLOAT)
            data += struct.pack("<d", token)
        elif isinstance(token, (str, bytes)):
            text = token if isinstance(token, bytes) else token.encode()
            known = texts.get(text)
            if known is None:
                texts[text] = len(texts)
                data.append(_TEXT)
                data += varint(len(text)) + text
            else:
                data.append(_SAME_TEXT)
                data += varint(known)
        else:
            data.append(_INT)
            data += _signed(int(token))
    return bytes(data)


def _signed(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)
