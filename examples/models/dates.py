"""Translate dates from English notation with a sequence-to-sequence network with attention.

Data: 8,000 generated dates such as "Friday, 3 May 2024" -> "2024-05-03", and 1,000 held out.
Network: a bidirectional LSTM reads the letters; a second LSTM writes the digits, and attends to the
letters for each digit.
Score: fraction of held-out dates with all characters correct, at least 0.99.
Time: 20 seconds on two cores.
Reference: Sutskever et al., Sequence to Sequence Learning with Neural Networks, 2014; Luong et al.,
Effective Approaches to Attention-based Neural Machine Translation, 2015.
"""

import example
import numpy as np

import opwright_nn as nn

arguments = example.read_arguments(__doc__)
n_train, epochs = (4_000, 3) if arguments.short else (8_000, 5)

written, iso = nn.datasets.sentences.written_dates(n_train + 1_000, seed=1)
letters, digits = nn.datasets.Vocabulary(written), nn.datasets.Vocabulary([*iso, ">"])
target = digits.encode(iso)
before = np.insert(target[:, :-1], 0, digits.number(">"), axis=1)
source = letters.encode(written)
n_letters = np.array([len(text) for text in written])
data = {"source": source, "n_letters": n_letters, "before": before, "target": target}
train = {name: rows[:n_train] for name, rows in data.items()}
test = {name: rows[n_train:] for name, rows in data.items()}

model = nn.Model()
length = model.input("n_letters", [None], "int64")
source = model.input("source", [None, source.shape[1]], "int64")
before = model.input("before", [None, 10], "int64")
read = model.embedding(source, [len(letters), 32])
memory, _, _ = model.lstm(read, 64, bidirectional=True, lengths=length)
states, _, _ = model.lstm(model.embedding(before, [len(digits), 32]), 128)
seen = model.attention(states, heads=1, memory=memory, lengths=length)
h = model.concat([states, seen], axis=2)
h = model.fc_layer(h, size=128, activation="tanh", num_flatten_dims=2)
scores = model.fc_layer(h, size=len(digits), num_flatten_dims=2)
loss = model.softmax_with_cross_entropy(scores, "target", reduction="mean")
rate = nn.schedule.cosine(5e-3, steps=epochs * n_train // 64, warmup=50)
model.minimize(loss, nn.optimizer.Adam(rate, clip=nn.clip.ClipByGlobalNorm(1.0)))

history = nn.train(model, train, epochs, batch_size=64, validation=test)


def translate(source: np.ndarray, n_letters: np.ndarray) -> list[str]:
    """Return ISO dates; each character is predicted from the previous characters."""
    written = np.full((len(source), 11), digits.number(">"))
    for i in range(10):
        rows = model.predict(scores, source=source, n_letters=n_letters, before=written[:, :10])
        written[:, i + 1] = rows[:, i].argmax(axis=1)
    return ["".join(digits.decode(row)) for row in written[:, 1:]]


found = translate(test["source"], test["n_letters"])
for text, date in list(zip(written[n_train:], found, strict=True))[:5]:
    print(f"{text:>29} -> {date}")
share = float(np.mean(np.array(found) == np.array(iso[n_train:])))
example.finish(
    arguments, history, "share of right dates", share, at_least=0.2 if arguments.short else 0.99
)
