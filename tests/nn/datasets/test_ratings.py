"""ratings: generated ratings depend on the features, and MovieLens files are read."""

from pathlib import Path

import numpy as np
import pytest

from opwright.errors import FormatError
from opwright_nn.datasets import ratings

USERS = "1::F::1::10::48067\n2::M::56::16::70072\n5::M::25::0::55117\n"
FILMS = "7::Toy Story (1995)::Animation|Comedy\n9::Amélie (2001)::Comedy|Romance\n"
RATINGS = "1::9::5::978300760\n5::7::3::978302109\n2::9::1::978301968\n"


def write(folder: Path, users: str = USERS, films: str = FILMS, rows: str = RATINGS) -> Path:
    for name, text in (("users", users), ("movies", films), ("ratings", rows)):
        (folder / f"{name}.dat").write_text(text, encoding="latin-1")
    return folder


def test_columns_are_read_from_the_lines_of_files(tmp_path: Path):
    found = ratings.read_movielens(write(tmp_path))
    assert found.user[:, 0].tolist() == [1, 5, 2]
    assert found.gender[:, 0].tolist() == [0, 1, 1]
    assert found.age[:, 0].tolist() == [0, 1, 2]  # 1, 25 and 56, in their order
    assert found.occupation[:, 0].tolist() == [10, 0, 16]
    assert found.film[:, 0].tolist() == [9, 7, 9]
    assert found.genres.tolist() == [[0, 1, 1], [1, 1, 0], [0, 1, 1]]
    assert found.rating[:, 0].tolist() == [5, 3, 1]
    assert found.sizes() == {"user": 6, "gender": 2, "age": 3, "occupation": 17, "film": 10}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"users": "1::F::1::10\n"}, r"users\.dat: line 1 must have 5 fields"),
        ({"films": "7::Toy Story::Comedy\n9a::B::C\n"}, "field 1 of line 2 must be an integer"),
        ({"rows": "1::9::-5::978300760\n"}, r"ratings\.dat: field 3 of line 1 .* got '-5'"),
        ({"rows": "1::99999999999::5::9\n"}, "integer of at most 10000000"),
        ({"rows": "1::8::5::978300760\n"}, "line 1 must name a user .* got user 1, film 8"),
        ({"rows": ""}, "there must be at least one line"),
    ],
)
def test_the_error_names_an_invalid_line(tmp_path: Path, texts: dict[str, str], message: str):
    with pytest.raises(FormatError, match=message):
        ratings.read_movielens(write(tmp_path, **texts))


def test_generated_ratings_depend_on_users_and_films():
    made = ratings.generate(20_000, users=50, films=20, seed=1)
    assert made.rating.min() == 1
    assert made.rating.max() == 5
    assert made.genres.shape == (20_000, 18)
    assert set(made.genres.sum(axis=1)) <= {1, 2, 3}
    # Ratings of the same user and film differ only by noise and rounding.
    pair = made.user[:, 0] * 20 + made.film[:, 0]
    counts = np.bincount(pair)
    means = np.bincount(pair, made.rating[:, 0]) / np.maximum(counts, 1)
    noise = np.sqrt(np.mean((made.rating[:, 0] - means[pair]) ** 2))
    assert noise < 0.6 * made.rating.std()


def test_each_user_has_one_gender_age_and_occupation():
    made = ratings.generate(2_000, users=30, films=20, seed=2)
    features = np.concatenate([made.user, made.gender, made.age, made.occupation], axis=1)
    assert len(np.unique(features, axis=0)) == len(np.unique(made.user))


def test_select_picks_the_same_rows_of_every_column():
    made = ratings.generate(100, users=10, films=5, seed=3)
    chosen = made.select(np.array([4, 2]))
    for column, whole in zip(chosen, made, strict=True):
        np.testing.assert_array_equal(column, whole[[4, 2]])
