"""Creates the functions of `opwright.ops`, one for each discovered operator."""
