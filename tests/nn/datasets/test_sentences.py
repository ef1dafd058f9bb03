"""sentences: labels follow from the grammar, and dates match their formats."""

import datetime
from collections import Counter

import numpy as np
import pytest

from opwright.errors import AttributeValueError
from opwright_nn.datasets import sentences


def find_label(sentence: str) -> int:
    """Parse the words of an opinion and return its label."""
    weights = []
    for clause in split_clauses(sentence.split()):
        sign = 1 if set(clause) & set(sentences._GOOD) else -1
        if set(clause) & {"not", "never"}:
            sign = -sign
        if set(clause) & {"very", "really", "absolutely"}:
            sign *= 3
        elif not set(clause) & {"rather", "slightly"}:
            sign *= 2
        weights.append(sign)
    turns = set(sentence.split()) & {"but", "although"}
    return int(weights[0] + (2 if turns else 1) * weights[1] > 0)


def split_clauses(words: list[str]) -> list[list[str]]:
    second = [i for i, word in enumerate(words) if word == "the"][1]
    return [words[:second], words[second:]]


def test_labels_match_the_grammar():
    texts, labels = sentences.opinions(500, seed=3)
    # "to be fair" and "from start to finish" contain no word that find_label looks for.
    assert [find_label(text) for text in texts] == labels
    assert {len(text.split()) for text in texts} <= set(range(9, 23))


def test_word_counts_do_not_predict_the_labels_of_opinions():
    texts, labels = sentences.opinions(6000, seed=1)
    columns = {word: i for i, word in enumerate(sorted({w for t in texts for w in t.split()}))}
    counts = np.zeros((len(texts), len(columns)))
    for row, text in zip(counts, texts, strict=True):
        for word, count in Counter(text.split()).items():
            row[columns[word]] = count
    signs = 2.0 * np.array(labels) - 1
    weights = np.linalg.lstsq(counts[:4000], signs[:4000])[0]
    accuracy = np.mean((counts[4000:] @ weights > 0) == (signs[4000:] > 0))
    assert accuracy < 0.55
    assert 0.45 < np.mean(labels) < 0.55


def test_dates_match_their_formats():
    written, iso = sentences.written_dates(400, seed=1)
    assert max(map(len, written)) <= 29
    for text, day in zip(written, map(datetime.date.fromisoformat, iso), strict=True):
        assert str(day.year) in text
        assert str(day.day) in text
        if any(weekday in text for weekday in sentences._WEEKDAYS):
            assert sentences._WEEKDAYS[day.weekday()] in text
        if any(month[:3] in text for month in sentences._MONTHS):
            assert sentences._MONTHS[day.month - 1][:3] in text


@pytest.mark.parametrize(
    ("day", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (12, "12th"), (13, "13th"), (22, "22nd")],
)
def test_ordinals_are_english(day: int, text: str):
    form = "the {day}{suffix} of {month} {year}"
    date = datetime.date(2024, 5, day)
    assert sentences._write_date(date, form) == f"the {text} of May 2024"


def test_the_same_seed_gives_the_same_sentences():
    assert sentences.opinions(20, seed=5) == sentences.opinions(20, seed=5)
    assert sentences.opinions(20, seed=5) != sentences.opinions(20, seed=6)
    assert sentences.written_dates(20, seed=5) == sentences.written_dates(20, seed=5)


def test_requesting_zero_sentences_is_refused():
    with pytest.raises(
        AttributeValueError, match=r"sentences\.opinions: n must be an int of at least 1"
    ):
        sentences.opinions(0)
    with pytest.raises(AttributeValueError, match=r"written_dates: n must be an int of at least 1"):
        sentences.written_dates(0)
