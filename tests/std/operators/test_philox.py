"""Random words, uniform and normal numbers, which must be bitwise identical on all devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from opwright_std.numerics.box_muller import random_normal
from opwright_std.numerics.philox import (
    philox4x32,
    random_long_words,
    random_uniform,
    random_words,
)

SEED, STREAM = 0x123456789ABCDEF0, 5
STEP = np.array([7], np.int64)
FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")

# tests/kat_vectors of Random123, the reference implementation: counter, key, result.
KNOWN_ANSWERS = (
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def draw_block(block: int, seed: int, stream: int, step: int) -> list[int]:
    """Compute one block in plain Python integers, following the paper."""
    c = [block & 0xFFFFFFFF, block >> 32, stream, step]
    k = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            p1 >> 32 ^ c[1] ^ k[0],
            p1 & 0xFFFFFFFF,
            p0 >> 32 ^ c[3] ^ k[1],
            p0 & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN_ANSWERS)
def test_philox_returns_the_published_test_vectors(
    counter: tuple[int, ...], key: tuple[int, int], result: tuple[int, ...]
) -> None:
    columns = np.array([counter, counter], np.uint64).T.copy()
    assert philox4x32(columns, key).T.tolist() == [list(result)] * 2


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 17])
def test_words_follow_the_order_of_the_blocks(count: int) -> None:
    expected = [word for block in range(5) for word in draw_block(block, SEED, STREAM, 7)]
    words = random_words(count, SEED, STREAM, STEP)
    assert words.dtype == np.uint32
    assert words.tolist() == expected[:count]


def test_words_do_not_depend_on_the_chunks_in_which_they_are_computed() -> None:
    whole = random_words(4 * 8192 * 2 + 6, SEED, STREAM, STEP)
    for block in (0, 1, 8191, 8192, 8193, 16384):
        assert whole[4 * block : 4 * block + 2].tolist() == draw_block(block, SEED, STREAM, 7)[:2]


def test_blocks_beyond_32_bits_use_the_second_word_of_the_counter() -> None:
    block = 2**32 + 3
    words = random_words(4, SEED, STREAM, STEP, first_block=block)
    assert words.tolist() == draw_block(block, SEED, STREAM, 7)


def test_a_negative_seed_is_its_twos_complement() -> None:
    negative = random_words(8, -2, STREAM, STEP)
    assert negative.tolist() == random_words(8, 2**64 - 2, STREAM, STEP).tolist()


def test_stream_and_step_wrap_modulo_two_to_the_32() -> None:
    far = random_words(8, SEED, STREAM, np.array([2**32 + 7], np.int64))
    assert far.tolist() == random_words(8, SEED, STREAM, STEP).tolist()


def test_absent_stream_and_step_count_as_zero() -> None:
    absent = random_words(8, SEED, None, None)
    assert absent.tolist() == random_words(8, SEED, 0, np.zeros(1, np.int64)).tolist()


def test_seed_stream_and_step_each_change_the_words() -> None:
    others = [(SEED + 1, 5, 7), (SEED + 2**32, 5, 7), (SEED, 6, 7), (SEED, 5, 8)]
    drawn = [random_words(4, s, t, np.array([p])).tolist() for s, t, p in others]
    drawn.append(random_words(4, SEED, STREAM, STEP).tolist())
    assert len({tuple(words) for words in drawn}) == 5


def test_64_bit_words_consist_of_two_words_with_the_low_word_first() -> None:
    words = random_words(10, SEED, STREAM, STEP).astype(object)
    expected = [int(words[2 * i]) + (int(words[2 * i + 1]) << 32) for i in range(5)]
    assert random_long_words(5, SEED, STREAM, STEP).tolist() == expected


def test_uniform_numbers_are_the_upper_bits_of_the_words() -> None:
    single = random_uniform(9, FLOAT32, SEED, STREAM, STEP)
    words = random_words(9, SEED, STREAM, STEP)
    assert single.tolist() == [(int(word) >> 8) / 2**24 for word in words]
    double = random_uniform(9, FLOAT64, SEED, STREAM, STEP)
    longs = random_long_words(9, SEED, STREAM, STEP)
    assert double.tolist() == [(int(word) >> 11) / 2**53 for word in longs]


def test_normal_returns_the_recorded_bits() -> None:
    # Computed by a C program that follows the docstring of box_muller.py, without contraction.
    single = random_normal(5, FLOAT32, SEED, STREAM, STEP)
    assert [float(number).hex() for number in single] == [
        "0x1.d3acd40000000p-1",
        "-0x1.1c8b300000000p+0",
        "0x1.bc335c0000000p-4",
        "0x1.a5c3160000000p-5",
        "0x1.e237300000000p+0",
    ]
    double = random_normal(5, FLOAT64, SEED, STREAM, STEP)
    assert [float(number).hex() for number in double] == [
        "0x1.4736aece2cd97p-3",
        "0x1.36af3feb74f8fp-4",
        "-0x1.7c7436d89fccfp+0",
        "0x1.0b25fae5725a9p+0",
        "-0x1.fde52cf436c8cp+0",
    ]


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_normal_numbers_match_box_muller_within_a_few_ulp(dtype: np.dtype[Any]) -> None:
    count = 20_000
    if dtype == FLOAT64:
        words: NDArray[Any] = random_long_words(count, SEED, STREAM, STEP)
        bits, fine, a = 64, 2**52, (words[::2] >> 11).astype(np.longdouble) / 2**53
        half = np.longdouble(2.0) ** -54
    else:
        words = random_words(count, SEED, STREAM, STEP)
        bits, fine, a = 32, 2**29, words[::2].astype(np.longdouble) / 2**32
        half = np.longdouble(2.0) ** -33
    b, radius = words[1::2], np.sqrt(-2 * np.log(a + half))
    quarter = (b >> (bits - 2)).astype(np.longdouble)
    rest = (b & (2 ** (bits - 2) - 1)) // (2 ** (bits - 2) // (2 * fine))
    angle = (rest.astype(np.longdouble) / fine - 1) * np.pi / 4 + quarter * np.pi / 2
    got = random_normal(count, dtype, SEED, STREAM, STEP)
    # The errors of the angle and of u are a few ulp of the radius.
    bound = 8 * np.finfo(dtype).eps * 6
    np.testing.assert_allclose(got[::2], radius * np.cos(angle), rtol=0, atol=bound)
    np.testing.assert_allclose(got[1::2], radius * np.sin(angle), rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_normal_numbers_have_the_moments_of_their_distribution(dtype: np.dtype[Any]) -> None:
    numbers = random_normal(400_000, dtype, 1, 0, None).astype(np.float64)
    error = 1 / np.sqrt(len(numbers))
    moments = [np.mean(numbers**power) for power in (1, 2, 3, 4)]
    # The bounds are five standard deviations of each sample moment.
    bounds = 5 * error * np.sqrt([1, 2, 15, 96])
    np.testing.assert_array_less(np.abs(np.subtract(moments, [0, 1, 0, 3])), bounds)
    assert abs(np.corrcoef(numbers[::2], numbers[1::2])[0, 1]) < 8 * error


def test_the_first_numbers_do_not_depend_on_how_many_numbers_are_drawn() -> None:
    for draw in (random_uniform, random_normal):
        for dtype in (FLOAT32, FLOAT64):
            long = draw(101, dtype, SEED, STREAM, STEP)
            assert draw(7, dtype, SEED, STREAM, STEP).tolist() == long[:7].tolist()
