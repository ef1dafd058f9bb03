"""PyTorch models as programs of opwright with parameters, which run without PyTorch."""
