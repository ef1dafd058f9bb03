"""Classify sentences of different lengths; padding has no effect."""

import keras
import numpy as np
from keras import layers

texts = ["a good film", "bad", "not a good film", "a film that is not bad", "good", "not good"] * 50
labels = np.array([1, 0, 0, 1, 1, 0] * 50)

words = sorted({word for text in texts for word in text.split()})
numbers = {word: number for number, word in enumerate(words, start=1)}
rows = [[numbers[word] for word in text.split()] for text in texts]
padded = keras.utils.pad_sequences(rows, padding="post")

model = keras.Sequential()
model.add(layers.Input([None], dtype="int64"))
model.add(layers.Embedding(len(words) + 1, 16, mask_zero=True))
model.add(layers.GRU(32))
model.add(layers.Dense(2))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss=loss)

model.fit(padded, labels, epochs=10, batch_size=32)
print(model.predict(padded[:6]).argmax(axis=1))
