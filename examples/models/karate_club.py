"""A graph network finds the two factions of a karate club from one known member of each.

Data: Zachary's karate club, 34 members and 78 friendships; the club split in two.
Network: two graph convolutions; the input of a node is its index.
Score: accuracy on all members, at least 0.94, so at most two are wrong.
Time: 2 seconds on two cores.
Reference: Kipf, Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2017;
Zachary, An Information Flow Model for Conflict and Fission in Small Groups, 1977.
"""

import example
import numpy as np

import opwright_nn as nn

INSTRUCTOR, ADMINISTRATOR, UNKNOWN = 0, 33, -1

arguments = example.read_arguments(__doc__, picture="the members, colored by the network")
club = nn.datasets.karate_club.load()
data = club.propagation()
known = np.full_like(club.labels, UNKNOWN)
known[[INSTRUCTOR, ADMINISTRATOR]] = club.labels[[INSTRUCTOR, ADMINISTRATOR]]

model = nn.Model()
matrix = model.input("matrix", [None, None])
hidden = model.fc_layer(matrix, size=16, activation="tanh", bias=False)
scores = model.matmul(matrix, model.fc_layer(hidden, size=2, bias=False))
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean", ignore_index=UNKNOWN)
model.minimize(loss + 5e-3 * model.l2(), nn.optimizer.Adam(0.01))
model.initialize_parameters(seed=1)

history = nn.train(
    model,
    (data, known),
    epochs=100 if arguments.short else 300,
    batch_size=len(known),
    shuffle=False,
    validation=(data, club.labels),
    metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
)

if arguments.picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    x, y = np.linalg.eigh(data)[1][:, -2:-4:-1].T  # friends are near each other
    axes.plot(x[club.edges.T], y[club.edges.T], color="lightgrey", zorder=1)
    score = model.predict(scores, matrix=data)
    colors = axes.scatter(x, y, c=score[:, 1] - score[:, 0], cmap="coolwarm", zorder=2)
    figure.colorbar(colors, label="score of the administrator's club")
    for member in (INSTRUCTOR, ADMINISTRATOR):
        axes.annotate("known", (x[member], y[member]), xytext=(5, 5), textcoords="offset points")
    axes.set_axis_off()
    figure.savefig(arguments.picture)
example.finish(arguments, history, "accuracy", at_least=0.9 if arguments.short else 0.94)
