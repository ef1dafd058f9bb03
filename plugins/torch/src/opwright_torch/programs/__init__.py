"""Models of PyTorch as programs of opwright, with their parameters, which run without PyTorch."""
