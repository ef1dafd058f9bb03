"""Philox 4x32-10: random words that are a pure function of seed, stream, step and element index.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011. Every device must return exactly these words, and this docstring specifies them.

Words
    Block ``b`` is Philox 4x32-10 of

    - key ``(seed mod 2^32, seed >> 32)``: the 64-bit seed, negative seeds in two's complement;
    - counter ``(b mod 2^32, b >> 32, stream, step)``, stream and step modulo 2^32.

    The four results of a block are the words ``4b``, ``4b + 1``, ``4b + 2``, ``4b + 3``. The
    logical (row-major) index of an element determines its words, independently of threads and
    chunks.
Bernoulli, any dtype
    Element ``i`` uses word ``i``; it is kept if ``word >= floor(p * 2^32)``, an integer test.
Uniform, float32 and the 16-bit types
    ``u = (word[i] >> 8) * 2^-24``, exact, in [0, 1 - 2^-24].
Uniform, float64
    ``u = ((word[2i + 1] << 32 | word[2i]) >> 11) * 2^-53``, exact, in [0, 1 - 2^-53].
Integers in [low, high)
    ``low + (w * (high - low) >> 64)`` with the 64-bit word ``w = word[2i + 1] << 32 | word[2i]``.
Normal
    See `box_muller.py`.

Parts
    A tensor may be part of a larger tensor: along an axis it has `own` of `all` rows, and `before`
    rows precede them. If rows were split further, the length of the axis may be a multiple of
    `own`. Elements are indexed by their position in the larger tensor, so that together its parts
    use the same words as the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # the multipliers from the paper
_W0, _W1 = 0x9E3779B9, 0xBB67AE85  # the Weyl increments of the key
_ROUNDS = 10
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_CHUNK_BLOCKS = 8192  # eight arrays of 64 KiB: a chunk's rounds stay in the L2 cache


def philox4x32(counter: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Apply the ten rounds of Philox 4x32 to every column of `counter`.

    Parameters
    ----------
    counter : uint64 array [4, n]
        Four 32-bit numbers a column; overwritten.
    key : tuple of int
        Two 32-bit numbers.

    Returns
    -------
    uint64 array [4, n]
        Four random 32-bit numbers a column.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _M0, c2 * _M1
        c0 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0)
        c2 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3))


def random_words(
    count: int, seed: int, stream: int | None, step: NDArray[Any] | None, first_block: int = 0
) -> NDArray[np.uint32]:
    """Return `count` random words, from the start of block `first_block`.

    Parameters
    ----------
    count : int
        Number of words.
    seed : int
        A 64-bit integer, signed or unsigned.
    stream : int or None
        Distinguishes the operators of one program; None is 0.
    step : int64 array of one element or None
        Distinguishes the runs of one program; None is 0.
    first_block : int
        A block holds four words.

    Returns
    -------
    uint32 array [count]
    """
    n_blocks = -(-count // 4)
    words = np.empty((n_blocks, 4), np.uint32)
    key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    last = (0 if stream is None else stream, 0 if step is None else int(step.item()))
    for begin in range(0, n_blocks, _CHUNK_BLOCKS):
        end = min(begin + _CHUNK_BLOCKS, n_blocks)
        blocks = np.arange(begin, end, dtype=np.uint64) + np.uint64(first_block)
        counter = np.empty((4, end - begin), np.uint64)
        counter[0], counter[1] = blocks & _LOW, blocks >> _HALF
        counter[2], counter[3] = (number & 0xFFFFFFFF for number in last)
        words[begin:end] = philox4x32(counter, key).T
    return words.ravel()[:count]


def words_of_part(
    shape: tuple[int, ...],
    axis: int,
    part: Sequence[int],
    seed: int,
    stream: int | None,
    step: NDArray[Any] | None,
) -> NDArray[np.uint32]:
    """Return a random word for each element of a part of a larger tensor.

    Parameters
    ----------
    shape : tuple of int
        Shape of the part.
    axis : int
        The axis that was split.
    part : sequence of three int
        The number of rows before the part, in the part, and in the larger tensor.
    seed, stream, step
        As in `random_words`.

    Returns
    -------
    uint32 array of that shape

    Raises
    ------
    ValueError
        If the values of `part` contradict each other or the shape.
    """
    before, own, total = map(int, part)
    size = math.prod(shape)
    if size == 0:
        return np.empty(shape, np.uint32)
    if own < 1 or not 0 <= before <= total - own or shape[axis] % own:
        raise ValueError(
            "part must be [rows_before, own_rows, all_rows], and own_rows must divide the length "
            f"of axis {axis}, got {[before, own, total]} for a length of {shape[axis]}"
        )
    run = math.prod(shape[axis:])  # these elements are contiguous in the larger tensor, too
    row = run // own
    words = np.empty((size // run, run), np.uint32)
    for number, target in enumerate(words):
        block, skipped = divmod((number * total + before) * row, 4)
        target[:] = random_words(skipped + run, seed, stream, step, block)[skipped:]
    return words.reshape(shape)


def random_long_words(
    count: int, seed: int, stream: int | None, step: NDArray[Any] | None, first_block: int = 0
) -> NDArray[np.uint64]:
    """Return `count` 64-bit words; number i is ``word[2i + 1] << 32 | word[2i]``."""
    words = random_words(2 * count, seed, stream, step, first_block).astype(np.uint64)
    return words[1::2] << _HALF | words[::2]


def multiply_high(words: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """Return the upper 64 bits of the product of 64-bit words and a factor below 2**64."""
    low, high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    word_low, word_high = words & _LOW, words >> _HALF
    middle = word_high * low + (word_low * low >> _HALF)
    other = word_low * high + (middle & _LOW)
    product: NDArray[np.uint64] = word_high * high + (middle >> _HALF) + (other >> _HALF)
    return product


def random_uniform(
    count: int, dtype: np.dtype[Any], seed: int, stream: int | None, step: NDArray[Any] | None
) -> NDArray[Any]:
    """Return `count` numbers in [0, 1): float64 for float64, otherwise float32."""
    if dtype == np.float64:
        bits = random_long_words(count, seed, stream, step) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53
    words = random_words(count, seed, stream, step) >> np.uint32(8)
    return words.astype(np.float32) * np.float32(2.0**-24)
