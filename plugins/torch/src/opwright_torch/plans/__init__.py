"""Plans for captured graphs: inference, and training in one or two plans."""
