"""Predict the progression of diabetes within a year with linear regression.

Data: 442 patients with ten features each, as in scikit-learn; 89 are held out.
Network: one linear layer.
Score: R² on the held-out patients, at least 0.5; always predicting the mean gives 0.
Time: 3 seconds on two cores.
Reference: Efron, Hastie, Johnstone, Tibshirani, Least Angle Regression, 2004, the source of the
data.
"""

import example

import opwright_nn as nn

arguments = example.read_arguments(__doc__)
epochs = 30 if arguments.short else 100
train, test = nn.datasets.scikit.load("diabetes", seed=1)

model = nn.Model()
predicted = model.fc_layer("features", size=1)
loss = model.mean(model.mse(predicted, "progression"))
model.minimize(loss, nn.optimizer.SGD(nn.schedule.cosine(0.03, steps=12 * epochs)))
model.initialize_parameters(seed=1)

metrics = {"R²": nn.metrics.R2(predicted, "progression")}
history = nn.train(model, train, epochs, batch_size=32, validation=test, metrics=metrics)
example.finish(arguments, history, "R²", at_least=0.45 if arguments.short else 0.5)
