"""Vocabulary: maps words or characters to numbers, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import arguments, checks
from opwright_nn.datasets.padding import MAX_LENGTH


class Vocabulary(Sequence[str]):
    """Words, or characters, with their numbers: more frequent words have smaller numbers.

    ``vocabulary[number]`` is a word, ``len(vocabulary)`` the size for an embedding. Number 0 pads
    short sequences, number 1 stands for every word that is not in the vocabulary.

    Parameters
    ----------
    sequences : iterable of sequences of str
        Lists of words, or strings, which are sequences of characters.
    max_size : int, at least 3, optional
        The maximum number of words to keep, including the numbers 0 and 1; all by default.
    min_count : int, at least 1
        The minimum number of occurrences of a word to keep it.

    Examples
    --------
    >>> vocabulary = Vocabulary(["abba", "a"])
    >>> vocabulary.encode(["ab", "ax"], length=3)
    array([[2, 3, 0],
           [2, 1, 0]])
    >>> vocabulary.decode([2, 3, 0])
    ['a', 'b']
    """

    PADDING = 0
    UNKNOWN = 1

    @arguments.suggest
    def __init__(
        self,
        sequences: Iterable[Sequence[str]],
        *,
        max_size: int | None = None,
        min_count: int = 1,
    ) -> None:
        size = None
        if max_size is not None:
            size = checks.check_int("Vocabulary", "max_size", max_size, at_least=3) - 2
        least = checks.check_int("Vocabulary", "min_count", min_count, at_least=1)
        rows = _check_sequences("Vocabulary", sequences)
        counts = Counter(word for row in rows for word in row)
        # Words of equal frequency are in alphabetical order, regardless of their order in the text.
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kept = islice((word for word, count in ordered if count >= least), size)
        self._words = ("<padding>", "<unknown>", *kept)
        self._numbers = {word: i for i, word in enumerate(self._words)}

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Vocabulary:
        """Return the vocabulary that numbers words in this order, starting with 2.

        ``Vocabulary.from_words(list(vocabulary)[2:])`` is the same vocabulary, from a file.
        """
        vocabulary = cls([])
        vocabulary._words = ("<padding>", "<unknown>", *words)
        vocabulary._numbers = {word: i for i, word in enumerate(vocabulary._words)}
        if len(vocabulary._numbers) < len(vocabulary._words):
            raise AttributeValueError(
                "Vocabulary.from_words: words must differ, got one twice, or '<padding>' or "
                "'<unknown>'; pass each once"
            )
        return vocabulary

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, number):  # type: ignore[no-untyped-def]
        return self._words[number]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word in self._numbers

    def number(self, word: str) -> int:
        """Return the number of a word, or 1 if it is not in the vocabulary."""
        if not isinstance(word, str):
            raise AttributeTypeError(
                f"Vocabulary.number: word must be a str, got {word!r} ({type(word).__name__}); "
                "write vocabulary[2] for the word of a number"
            )
        return self._numbers.get(word, self.UNKNOWN)

    def encode(
        self, sequences: Iterable[Sequence[str]], length: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Return the word numbers of sequences as one array.

        Parameters
        ----------
        sequences : iterable of sequences of str
            Lists of words, or strings.
        length : int in [1, 2³¹), optional
            The length of the longest sequence by default. Longer sequences are cut at the end.

        Returns
        -------
        ndarray
            int64 [n, length], with 0 after short sequences.
        """
        words = _check_sequences("Vocabulary.encode", sequences)
        rows = [[self._numbers.get(word, self.UNKNOWN) for word in row] for row in words]
        width = max(map(len, rows), default=0)
        if length is not None:
            width = checks.check_int(
                "Vocabulary.encode", "length", length, at_least=1, at_most=MAX_LENGTH
            )
        numbers = np.zeros((len(rows), width), np.int64)
        for i, row in enumerate(rows):
            numbers[i, : len(row)] = row[:width]
        return numbers

    def decode(self, numbers: npt.ArrayLike) -> list[str]:
        """Return the words of one sequence of numbers, int [length], without padding.

        The characters of a string are joined by ``"".join``.
        """
        row = checks.find_array(numbers)
        if row is not None and row.shape == (0,):  # NumPy turns an empty list into floats
            return []
        if row is None or row.ndim != 1 or row.dtype.kind not in "iu":
            got = "objects" if row is None else f"{row.dtype} of shape {list(row.shape)}"
            raise ShapeError(
                f"Vocabulary.decode: numbers must be integers [length], got {got}; decode one row "
                "at a time"
            )
        if row.size and not 0 <= row.min() <= row.max() < len(self):
            raise AttributeValueError(
                f"Vocabulary.decode: numbers must be in [0, {len(self)}), got {int(row.min())} to "
                f"{int(row.max())}; use the vocabulary that encoded them"
            )
        return [self._words[number] for number in row if number != self.PADDING]


def _check_sequences(who: str, sequences: object) -> Iterator[list[str]]:
    """Yield sequences that are strings or contain only strings."""
    if isinstance(sequences, str) or not isinstance(sequences, Iterable):
        raise AttributeTypeError(
            f"{who}: sequences must be a list of sequences of words or characters, got a "
            f"{type(sequences).__name__}; write [text] for its characters"
        )
    for number, sequence in enumerate(sequences):
        words = list(sequence) if isinstance(sequence, Iterable) else [sequence]
        for word in words:
            if not isinstance(word, str):
                raise AttributeTypeError(
                    f"{who}: words must be strings, got {word!r} ({type(word).__name__}) in "
                    f"sequence {number}; decode bytes, and write numbers as str(number)"
                )
        yield words
