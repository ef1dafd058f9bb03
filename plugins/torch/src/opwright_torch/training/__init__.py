"""Training steps in one plan: forward, backward and the update of a PyTorch optimizer."""
