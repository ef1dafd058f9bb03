"""Generators of text for small experiments: opinions with labels, and written dates.

The sentences are generated from word lists and a grammar, not collected. The accuracy of a network
on these sentences shows whether it can learn order and distance; it says nothing about real text.
"""

from __future__ import annotations

import datetime

import numpy as np

from opwright_nn import arguments, checks

__all__ = ["opinions", "written_dates"]

_SUBJECTS = (
    "plot", "acting", "music", "ending", "story", "cast", "script", "photography", "beginning",
    "dialogue", "hero", "villain", "humour", "scenery", "camera work", "second half",
)  # fmt: skip
_GOOD = (
    "good", "wonderful", "moving", "clever", "charming", "brilliant", "fresh", "gripping", "funny",
    "beautiful", "convincing", "delightful",
)  # fmt: skip
_BAD = (
    "bad", "dull", "boring", "clumsy", "predictable", "tiresome", "flat", "confused", "silly",
    "shallow", "annoying", "lifeless",
)  # fmt: skip
_VERBS = ("was", "is", "seemed", "felt")
_ADVERBS = {"": 2, "very ": 3, "really ": 3, "absolutely ": 3, "rather ": 1, "slightly ": 1}
_OPENINGS = ("", "", "in my opinion ", "i must say ", "honestly ", "to be fair ")
_ENDINGS = ("", "", " as i see it", " from start to finish", " after all")


@arguments.suggest
def opinions(n: int, seed: int = 0) -> tuple[list[str], list[int]]:
    """Return made-up sentences about films, with label 1 for praise and 0 for blame.

    A sentence has two clauses such as ``the plot was not very good``. The adjective determines
    praise or blame, ``not`` and ``never`` reverse it, an adverb sets its weight to 1, 2 or 3. With
    ``but`` or ``although`` the second clause counts twice. Half of the clauses are reversed, so
    that word counts contain no information about the label: order matters. Sentences of total
    weight 0 are not returned.

    Parameters
    ----------
    n : int, at least 1
        The number of sentences.
    seed : int, at least 0
        The seed of the choices.

    Returns
    -------
    (list of str, list of int)
        Lower-case sentences of 9 to 22 words without punctuation, and their labels.
    """
    n = checks.check_int("sentences.opinions", "n", n, at_least=1)
    rng = np.random.default_rng(checks.check_int("sentences.opinions", "seed", seed, at_least=0))
    sentences: list[str] = []
    labels: list[int] = []
    while len(sentences) < n:
        sentence, weight = _draw_opinion(rng)
        if weight:
            sentences.append(sentence)
            labels.append(int(weight > 0))
    return sentences, labels


def _draw_opinion(rng: np.random.Generator) -> tuple[str, int]:
    """Return a sentence and its weight, above 0 for praise."""
    (first, a), (second, b) = _draw_clause(rng), _draw_clause(rng)
    opening, ending = _OPENINGS[rng.integers(6)], _ENDINGS[rng.integers(5)]
    joint = rng.integers(3)
    if joint == 0:
        return f"{opening}{first} and {second}{ending}", a + b
    if joint == 1:
        return f"{opening}{first} but {second}{ending}", a + 2 * b
    return f"{opening}although {first} {second}{ending}", a + 2 * b


def _draw_clause(rng: np.random.Generator) -> tuple[str, int]:
    subject = _SUBJECTS[rng.integers(len(_SUBJECTS))]
    verb = _VERBS[rng.integers(len(_VERBS))]
    sign = 1 if rng.integers(2) else -1
    adjective = (_GOOD if sign > 0 else _BAD)[rng.integers(12)]
    adverb = list(_ADVERBS)[rng.integers(len(_ADVERBS))]
    negation = ("", "", "not ", "never ")[rng.integers(4)]
    if negation:
        sign = -sign
    return f"the {subject} {verb} {negation}{adverb}{adjective}", sign * _ADVERBS[adverb]


_FORMATS = (
    "{day} {month} {year}", "{month} {day}, {year}", "{day} {short} {year}",
    "{short} {day}, {year}", "{weekday}, {day} {month} {year}", "{weekday}, {month} {day}, {year}",
    "{day}. {number}. {year}", "the {day}{suffix} of {month} {year}", "{number}/{day}/{year}",
)  # fmt: skip
# The names in `calendar` are not used, as they depend on the locale.
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@arguments.suggest
def written_dates(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return dates in English notation, and in ISO 8601.

    ``"Friday, 3 May 2024"`` becomes ``"2024-05-03"``. There are nine formats, with month names
    in full or of three letters, weekdays, ordinals, and numbers: ``"3. 5. 2024"``, ``"5/3/2024"``.

    Parameters
    ----------
    n : int, at least 1
        The number of pairs. They may repeat.
    seed : int, at least 0
        The seed of dates, from 1900 to 2099, and formats, all equally likely.

    Returns
    -------
    (list of str, list of str)
        Written dates of up to 29 characters, and ISO dates of 10 characters.
    """
    n = checks.check_int("sentences.written_dates", "n", n, at_least=1)
    seed = checks.check_int("sentences.written_dates", "seed", seed, at_least=0)
    rng = np.random.default_rng(seed)
    first, last = (datetime.date(year, 1, 1).toordinal() for year in (1900, 2100))
    days = [datetime.date.fromordinal(int(i)) for i in rng.integers(first, last, n)]
    formats = rng.integers(len(_FORMATS), size=n)
    written = [_write_date(day, _FORMATS[i]) for day, i in zip(days, formats, strict=True)]
    return written, [day.isoformat() for day in days]


def _write_date(date: datetime.date, form: str) -> str:
    month = _MONTHS[date.month - 1]
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(date.day % 10, "th")
    return form.format(
        day=date.day,
        month=month,
        short=month[:3],
        number=date.month,
        year=date.year,
        weekday=_WEEKDAYS[date.weekday()],
        suffix="th" if date.day in (11, 12, 13) else suffix,
    )
