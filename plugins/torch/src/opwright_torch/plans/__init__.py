"""Plans for what PyTorch's compiler captured: inference, training in one plan, or in two."""
