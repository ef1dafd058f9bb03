"""Whole training steps: forward, backward and the update by PyTorch's optimizer, in one plan."""
