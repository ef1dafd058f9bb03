"""Describes operators: dtypes, shapes, OpProto, and the rules that belong to an operator."""
