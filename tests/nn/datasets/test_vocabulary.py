"""Vocabulary: more frequent words have smaller ids, and encoded words can be decoded."""

import numpy as np
import pytest

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn.datasets import Vocabulary


def test_the_most_frequent_word_has_the_smallest_id():
    vocabulary = Vocabulary([["to", "be", "or"], ["not", "to", "be"], ["to"]])
    assert list(vocabulary) == ["<padding>", "<unknown>", "to", "be", "not", "or"]
    assert [vocabulary.number(word) for word in ("to", "or", "question")] == [2, 5, 1]


def test_word_ids_do_not_depend_on_the_order_of_the_text():
    assert list(Vocabulary(["ab", "ba"])) == list(Vocabulary(["ba", "ab"]))


def test_rare_words_are_encoded_as_unknown():
    assert list(Vocabulary(["aaabbc"], max_size=4))[2:] == ["a", "b"]
    assert list(Vocabulary(["aaabbc"], min_count=3))[2:] == ["a"]


def test_short_sequences_are_padded_and_long_sequences_are_truncated():
    vocabulary = Vocabulary(["aab"])
    np.testing.assert_array_equal(vocabulary.encode(["b", "aa"]), [[3, 0], [2, 2]])
    np.testing.assert_array_equal(vocabulary.encode(["abx"], length=2), [[2, 3]])
    np.testing.assert_array_equal(vocabulary.encode(["x"], length=3), [[1, 0, 0]])
    assert vocabulary.encode([]).shape == (0, 0)


def test_decoding_restores_known_words():
    vocabulary = Vocabulary(["hello world"])
    for text in ("hello", "world", "low"):
        row = vocabulary.encode([text], length=8)[0]
        assert "".join(vocabulary.decode(row)) == text


def test_a_single_string_is_refused():
    with pytest.raises(AttributeTypeError, match=r"write \[text\] for its characters"):
        Vocabulary("hello")


def test_ids_from_another_vocabulary_are_refused():
    vocabulary = Vocabulary(["ab"])
    with pytest.raises(AttributeValueError, match=r"must be in \[0, 4\), got 2 to 4"):
        vocabulary.decode([2, 4])
    with pytest.raises(AttributeValueError, match=r"must be in \[0, 4\), got -1 to 2"):
        vocabulary.decode([2, -1])
    with pytest.raises(ShapeError, match=r"integers \[length\], got float64 of shape \[1\]"):
        vocabulary.decode([0.5])
    with pytest.raises(ShapeError, match="decode one row at a time"):
        vocabulary.decode([[1]])


def test_max_size_must_leave_room_for_a_word():
    with pytest.raises(AttributeValueError, match="max_size"):
        Vocabulary(["ab"], max_size=2)


@pytest.mark.parametrize(
    ("sequences", "text"),
    [
        ("ab", "a list of sequences of words or characters, got a str"),
        (None, "a list of sequences of words or characters, got a NoneType"),
        (5, "a list of sequences of words or characters, got a int"),
        ([[1, 2]], r"words must be strings, got 1 \(int\) in sequence 0"),
        (["a", ["b", None]], r"words must be strings, got None \(NoneType\) in sequence 1"),
        ([b"ab"], r"words must be strings, got 97 \(int\) in sequence 0; decode bytes"),
        (["a", 3], r"words must be strings, got 3 \(int\) in sequence 1"),
        ([[["a"]]], r"words must be strings, got \['a'\] \(list\) in sequence 0"),
    ],
)
def test_words_must_be_strings(sequences, text):
    with pytest.raises(AttributeTypeError, match=f"^Vocabulary: .*{text}"):
        Vocabulary(sequences)
    with pytest.raises(AttributeTypeError, match=rf"^Vocabulary\.encode: .*{text}"):
        Vocabulary(["ab"]).encode(sequences)


def test_a_word_that_is_not_a_string_is_refused_rather_than_encoded_as_unknown():
    with pytest.raises(AttributeTypeError, match=r"number: word must be a str, got 2 \(int\)"):
        Vocabulary(["ab"]).number(2)
    assert ["a"] not in Vocabulary(["ab"])


def test_an_empty_sequence_decodes_to_no_words():
    assert Vocabulary(["ab"]).decode([]) == []
    with pytest.raises(ShapeError, match="integers .* got objects"):
        Vocabulary(["ab"]).decode([[1], [1, 2]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_ids_of_every_dtype_are_decoded(dtype):
    assert Vocabulary(["ab"]).decode(np.array([0, 2, 3, 0], dtype)) == ["a", "b"]
