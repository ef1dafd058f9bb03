"""The rows of ATen's operators, by subject; see `opwright_torch.translate`."""
