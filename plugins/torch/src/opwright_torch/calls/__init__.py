"""The operators that call PyTorch inside a plan, for what has no counterpart here.

``torch.call`` computes a text: calls of ATen operators on the operator's inputs, as
`opwright_torch.calls.text` writes them. ``torch.random_call`` does so with random numbers that the
step of the run decides.
"""
