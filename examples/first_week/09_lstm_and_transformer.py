"""Predict the next number of a counting sequence with an LSTM, and with a transformer."""

import numpy as np

import opwright_nn as nn

rng = np.random.default_rng(0)
count = (np.arange(17) + rng.integers(0, 12, (512, 1))) % 12
data = {"words": count[:, :-1], "next": count[:, 1:]}


def lstm(model, words):
    states, _, _ = model.lstm(model.embedding(words, size=[12, 32]), 64)
    return model.fc_layer(states, 12, num_flatten_dims=2)


def transformer(model, words):
    h = model.learned_positions(model.embedding(words, size=[12, 32]), max_length=16)
    for _ in range(2):
        h = model.transformer_encoder_block(h, heads=4, causal=True, dropout=0.1)
    h = model.layer_norm(h, begin_norm_axis=2)
    return model.fc_layer(h, 12, num_flatten_dims=2)


for network in (lstm, transformer):
    model = nn.Model()
    scores = network(model, model.input("words", [None, None], "int64"))
    loss = model.softmax_with_cross_entropy(scores, "next", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(0.01))
    nn.train(model, data, epochs=10, batch_size=32)
    print(network.__name__, model.predict(scores, words=[[3, 4, 5]]).argmax(axis=-1))
