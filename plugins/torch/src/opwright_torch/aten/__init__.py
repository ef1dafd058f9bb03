"""The rows that translate ATen operators, by area; see `opwright_torch.translate`."""
