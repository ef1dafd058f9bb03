"""A table of operators with their purposes, and a check of such tables in any package."""

ROWS = {"good.pick": "picks elements", "good.row_sums": "adds up rows"}


def check_table(rows, draw):
    for op_type, purpose in rows.items():
        if not any(sample.op_type == op_type for sample in draw(op_type)):
            yield f"{op_type}: it must have samples, got none"
        if len(purpose.split()) < 2:
            yield f"{op_type}: its purpose must be a sentence, got {purpose!r}"
