"""How operators are described: dtypes, shapes, OpProto, and the rules that belong to one."""
