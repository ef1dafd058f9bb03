"""Computations that several operators share: random words, class ids, windows of images."""
