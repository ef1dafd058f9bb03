"""Ratings of films by users: a generator, and a reader of MovieLens files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright.errors import FormatError
from opwright.plugin import path_of
from opwright_nn import arguments, checks
from opwright_nn.datasets.text import read_lines

__all__ = ["Ratings", "generate", "read_movielens"]

Numbers = npt.NDArray[np.int64]

_MAX_ID = 10_000_000


@arguments.suggest
class Ratings(NamedTuple):
    """A row for each rating, with the features of its user and its film.

    Attributes
    ----------
    user, film, gender, age, occupation : ndarray
        int64 [n, 1], each counted from 0: indices for an embedding.
    genres : ndarray
        float32 [n, genres], 1 in the columns of the film's genres.
    rating : ndarray
        float32 [n, 1], 1 to 5.
    """

    user: Numbers
    gender: Numbers
    age: Numbers
    occupation: Numbers
    film: Numbers
    genres: npt.NDArray[np.float32]
    rating: npt.NDArray[np.float32]

    def select(self, rows: Any) -> Ratings:
        """Return the rows selected by a slice, or by an array of indices or bools."""
        return Ratings(*(column[rows] for column in self))

    def sizes(self) -> dict[str, int]:
        """Return the vocabulary size of each column for an embedding."""
        names = ("user", "gender", "age", "occupation", "film")
        return {name: int(getattr(self, name).max()) + 1 for name in names}


@arguments.suggest
def generate(n: int, users: int = 1000, films: int = 500, seed: int = 0) -> Ratings:
    """Return synthetic ratings: users like films whose genres match their group's preferences.

    A user has a gender (2), an age (7 groups) and an occupation (21), a film one to three of 18
    genres. The preferences of each gender, age, occupation and user for genres are normal random
    numbers; each film has a quality. A rating is 3.5 plus the preference for the film's genres,
    plus its quality, plus noise of standard deviation 0.5, rounded to 1, 2, 3, 4 or 5. A model that
    knew everything except the noise would have a root mean square error of about 0.55. The column
    names and the numbers of groups are the same as in MovieLens 1M.

    Parameters
    ----------
    n : int, at least 1
        The number of ratings.
    users, films : int, at least 2
        The numbers of users and films; each rating draws one of each, all equally likely.
    seed : int, at least 0
        The seed of all random numbers.

    Returns
    -------
    Ratings
        The ratings, n rows.
    """
    who = "ratings.generate"
    n = checks.check_int(who, "n", n, at_least=1)
    users = checks.check_int(who, "users", users, at_least=2)
    films = checks.check_int(who, "films", films, at_least=2)
    rng = np.random.default_rng(checks.check_int(who, "seed", seed, at_least=0))
    gender, age, occupation = (rng.integers(0, size, users) for size in (2, 7, 21))
    taste = 0.5 * rng.standard_normal((users, 18))
    for group, size in ((gender, 2), (age, 7), (occupation, 21)):
        taste += 0.5 * rng.standard_normal((size, 18))[group]
    genres = np.zeros((films, 18), np.float32)
    for row in genres:
        row[rng.choice(18, rng.integers(1, 4), replace=False)] = 1
    quality = 0.4 * rng.standard_normal(films)
    user, film = rng.integers(0, users, n), rng.integers(0, films, n)
    fit = (taste[user] * genres[film]).sum(axis=1) / np.sqrt(genres[film].sum(axis=1))
    score = 3.5 + fit + quality[film] + 0.5 * rng.standard_normal(n)
    return Ratings(
        _column(user),
        _column(gender[user]),
        _column(age[user]),
        _column(occupation[user]),
        _column(film),
        genres[film],
        np.clip(np.rint(score), 1, 5).astype(np.float32).reshape(-1, 1),
    )


@arguments.suggest
def read_movielens(folder: str | os.PathLike[str]) -> Ratings:
    """Read ``users.dat``, ``movies.dat`` and ``ratings.dat`` in the format of MovieLens 1M.

    The lines of these files are ``user::gender::age::occupation::zip``,
    ``film::title::genre|genre`` and ``user::film::rating::time``. Ages and genres are numbered in
    sorted order. Harper and Konstan, The MovieLens Datasets, 2015.

    Parameters
    ----------
    folder : str or path
        The folder with the three files, in Latin-1.

    Returns
    -------
    Ratings
        A row for each line of ``ratings.dat``, in its order.

    Raises
    ------
    FormatError
        A line has a wrong number of fields, text instead of a number, or a user or film that the
        other files do not contain.
    OSError
        A file cannot be opened.
    """
    where = Path(path_of("ratings.read_movielens", folder, name="folder"))
    users = {row[0]: row for row in _read(where / "users.dat", 5, (0, 2, 3))}
    films = {row[0]: row for row in _read(where / "movies.dat", 3, (0,))}
    rows = _read(where / "ratings.dat", 4, (0, 1, 2))
    genders = _number(row[1] for row in users.values())
    ages = _number(row[2] for row in users.values())
    genres = _number(genre for row in films.values() for genre in row[2].split("|"))
    flags = {name: np.zeros(len(genres), np.float32) for name in films}
    for name, row in films.items():
        flags[name][[genres[genre] for genre in row[2].split("|")]] = 1
    for line, (user, film, *_) in enumerate(rows, 1):
        if user not in users or film not in films:
            raise FormatError(
                f"{where / 'ratings.dat'}: line {line} must name a user of users.dat and a film "
                f"of movies.dat, got user {user!r}, film {film!r}; take all files of one release"
            )
    raters = [users[row[0]] for row in rows]
    return Ratings(
        _column([row[0] for row in rows]),
        _column([genders[row[1]] for row in raters]),
        _column([ages[row[2]] for row in raters]),
        _column([row[3] for row in raters]),
        _column([row[1] for row in rows]),
        np.stack([flags[row[1]] for row in rows]),
        _column([row[2] for row in rows]).astype(np.float32),
    )


def _read(path: Path, n_fields: int, numbers: Sequence[int]) -> list[Any]:
    """Return the fields of each line; the fields with the indices `numbers` are ints."""
    rows = []
    for line, text in enumerate(read_lines(path, encoding="latin-1"), 1):
        fields: list[Any] = text.split("::")
        if len(fields) != n_fields:
            raise FormatError(
                f"{path}: line {line} must have {n_fields} fields with :: between them, got "
                f"{text!r}; pass files in the format of MovieLens 1M"
            )
        for i in numbers:
            if not (fields[i].isdecimal() and int(fields[i]) <= _MAX_ID):
                raise FormatError(
                    f"{path}: field {i + 1} of line {line} must be an integer of at most "
                    f"{_MAX_ID}, got {fields[i]!r}; pass files in the format of MovieLens 1M"
                )
            fields[i] = int(fields[i])
        rows.append(fields)
    if not rows:
        raise FormatError(f"{path}: there must be at least one line, got none; pass another file")
    return rows


def _number(values: Any) -> dict[Any, int]:
    return {value: i for i, value in enumerate(sorted(set(values)))}


def _column(values: npt.ArrayLike) -> Numbers:
    return np.asarray(values, np.int64).reshape(-1, 1)
