"""Predict the next number of a counting sequence with an LSTM, and with a transformer."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
count = (np.arange(17) + rng.integers(0, 12, (512, 1))) % 12


class Positions(layers.Layer):
    """Adds a learned vector to each position."""

    def __init__(self, length, size):
        super().__init__()
        self.embedding = layers.Embedding(length, size)

    def call(self, x):
        """Return x with the vectors added."""
        return x + self.embedding(keras.ops.arange(keras.ops.shape(x)[1]))


def lstm(words):
    h = layers.LSTM(64, return_sequences=True)(layers.Embedding(12, 32)(words))
    return layers.Dense(12)(h)


def transformer(words):
    h = Positions(16, 32)(layers.Embedding(12, 32)(words))
    for _ in range(2):
        n = layers.LayerNormalization()(h)
        n = layers.MultiHeadAttention(4, 8, dropout=0.1)(n, n, use_causal_mask=True)
        h = h + layers.Dropout(0.1)(n)
        n = layers.Dense(128, activation="gelu")(layers.LayerNormalization()(h))
        h = h + layers.Dropout(0.1)(layers.Dense(32)(n))
    return layers.Dense(12)(layers.LayerNormalization()(h))


for network in (lstm, transformer):
    words = layers.Input([None], dtype="int64")
    model = keras.Model(words, network(words))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    model.fit(count[:, :-1], count[:, 1:], epochs=10, batch_size=32)
    print(network.__name__, model.predict(np.array([[3, 4, 5]])).argmax(axis=-1))
