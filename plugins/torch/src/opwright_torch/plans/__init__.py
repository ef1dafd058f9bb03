"""Plans for captured graphs: inference, and training in one plan or two."""
