"""Classify sentences of different lengths; padding has no effect."""

import numpy as np

import opwright_nn as nn

texts = ["a good film", "bad", "not a good film", "a film that is not bad", "good", "not good"] * 50
labels = np.array([1, 0, 0, 1, 1, 0] * 50)

vocabulary = nn.datasets.Vocabulary(text.split() for text in texts)
rows = [[vocabulary.number(word) for word in text.split()] for text in texts]
padded, lengths = nn.datasets.pad(rows)

model = nn.Model()
h = model.embedding("words", size=[len(vocabulary), 16])
_, last = model.gru(h, 32, lengths="lengths")
scores = model.fc_layer(last[-1], size=2)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
model.minimize(loss, nn.optimizer.Adam(0.01))

data = {"words": padded, "lengths": lengths, "label": labels}
nn.train(model, data, epochs=10, batch_size=32)
print(model.predict(scores, words=padded[:6], lengths=lengths[:6]).argmax(axis=1))
