"""Classify sentiment with an LSTM, which reads a sentence word by word.

Data: 20,000 generated sentences and 2,000 held out, such as "although the plot was not dull the
ending felt rather silly". Word counts do not determine the label; word order does. With --file,
each line of the file has a label 0 or 1, a tab and a sentence.
Network: an embedding, and a bidirectional LSTM.
Score: accuracy on held-out sentences, at least 0.98.
Time: 10 seconds on two cores.
Reference: Hochreiter, Schmidhuber, Long Short-Term Memory, 1997.
"""

import example
import numpy as np

import opwright as ow
import opwright_nn as nn

arguments = example.read_arguments(__doc__, file="labels and sentences of your own")
epochs, n_sentences = 6, 11_000 if arguments.short else 22_000

if arguments.file:
    rows = [line.split("\t", 1) for line in nn.datasets.text.read_lines(arguments.file)]
    labels, sentences = [int(label) for label, _ in rows], [sentence for _, sentence in rows]
else:
    sentences, labels = nn.datasets.sentences.opinions(n_sentences, seed=1)
texts = [sentence.lower().split() for sentence in sentences]
n_train = len(texts) * 10 // 11
vocabulary = nn.datasets.Vocabulary(texts[:n_train], max_size=20_000)
data = {"words": vocabulary.encode(texts), "label": np.array(labels)[:, None]}
train = {name: rows[:n_train] for name, rows in data.items()}
test = {name: rows[n_train:] for name, rows in data.items()}

model = nn.Model()
words = model.input("words", [None, None], "int64")
vectors = model.embedding(words, [len(vocabulary), 32], padding_index=vocabulary.PADDING)
length = ow.ops.sum(ow.ops.cast(words > vocabulary.PADDING, dtype="int64"), axis=[1])
_, last, _ = model.lstm(vectors, 48, bidirectional=True, lengths=length)
h = model.concat([last[0], last[1]])
scores = model.fc_layer(h, size=2)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
rate = nn.schedule.cosine(5e-3, steps=epochs * n_train // 64, warmup=50)
model.minimize(loss, nn.optimizer.Adam(rate))

accuracy = nn.metrics.Accuracy(scores, "label")
history = nn.train(
    model, train, epochs, batch_size=64, validation=test, metrics={"accuracy": accuracy}
)

examples = ["the story was not bad", "the cast was good but the ending was never convincing"]
for text, row in zip(
    examples,
    model.predict(scores, words=vocabulary.encode([t.split() for t in examples])),
    strict=True,
):
    print("praise:" if row[1] > row[0] else "blame: ", text)
example.finish(arguments, history, "accuracy", at_least=0.9 if arguments.short else 0.98)
