"""Learn word vectors by predicting each word from the two words before it and the two after it.

Data: the docstrings of Python's library, 100,000 words, the last 5 % held out.
Network: one table of 2,000 vectors for the four context words and the predicted word.
Score: perplexity of held-out words, at most 130; word frequencies alone give 380.
Time: 20 seconds on two cores.
Reference: Mikolov et al., Efficient Estimation of Word Representations in Vector Space, 2013;
Press, Wolf, Using the Output Embedding to Improve Language Models, 2017.
"""

import math
import re

import example
import numpy as np

import opwright_nn as nn

PLACES = {"before_2": 0, "before_1": 1, "after_1": 3, "after_2": 4}

arguments = example.read_arguments(__doc__, file="a text of your own")
epochs = 1 if arguments.short else 5

if arguments.file:
    text = "\n".join(nn.datasets.text.read_lines(arguments.file))
else:
    text = nn.datasets.text.read_docstrings()
words = re.findall(r"[a-z']+|[.,:;()]", text.lower())
vocabulary = nn.datasets.Vocabulary([words], max_size=2000)
numbers = vocabulary.encode([words])[0]
starts = np.flatnonzero(numbers[2:-2] != vocabulary.UNKNOWN)[:, None]
data = {name: numbers[starts + place] for name, place in {**PLACES, "word": 2}.items()}
n_train = int(0.95 * len(starts))
train = {name: rows[:n_train] for name, rows in data.items()}
test = {name: rows[n_train:] for name, rows in data.items()}

model = nn.Model()
table = nn.ParamAttr(name="vectors")
vectors = [model.embedding(place, [len(vocabulary), 48], param_attr=table) for place in PLACES]
around = model.dropout(model.flatten(model.concat(vectors)), 0.3)
h = model.fc_layer(around, size=48, activation="tanh")
scores = model.matmul(h, "vectors", transpose_y=True)
loss = model.softmax_with_cross_entropy(scores, "word", reduction="mean")
rate = nn.schedule.cosine(3e-3, steps=epochs * n_train // 128)
model.minimize(loss, nn.optimizer.Adam(rate))

history = nn.train(model, train, epochs, batch_size=128, validation=test)

vectors = model.scope.var("vectors").numpy()
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
for word in ("true", "is", "read", "returns", "list", "string"):
    nearest = np.argsort(-vectors @ vectors[vocabulary.number(word)])[1:6]
    print(f"{word:>8}: {', '.join(vocabulary[i] for i in nearest)}")
perplexity = math.exp(history["validation_loss"][-1])
example.finish(
    arguments, history, "perplexity", perplexity, at_most=200 if arguments.short else 130
)
