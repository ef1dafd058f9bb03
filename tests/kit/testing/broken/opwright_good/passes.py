"""x + x becomes 2 x."""


def double(graph):
    edit = graph.edit()
    for add in graph.of_type("add"):
        (x,), (y,) = add.inputs
        if x is y and x.meta.dtype in ("float32", "float64"):
            out = add.outputs[0][0]
            made = graph.make("scale", {"x": x}, {"out": out}, {"scale": 2.0}, like=add)
            if graph.has_kernel(made):
                edit.fuse([add], [made])
    edit.apply()
