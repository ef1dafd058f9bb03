"""What several operators compute with: random words, class ids, windows of images."""
