"""Operators that call PyTorch inside a plan, for ATen operators without a counterpart.

``torch.call`` executes a string that describes calls of ATen operators on its inputs;
`opwright_torch.calls.text` writes the string. ``torch.random_call`` also seeds PyTorch's generator
with the step of the run.
"""
