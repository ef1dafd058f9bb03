"""The formulas in an operator's description, typeset as MathML, which browsers show natively.

A formula is ``NAME = EXPRESSION`` in the comment of an OpProto, in Python's notation. A formula
that cannot be parsed to its end stays text, so a page never shows a partial formula.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from html import escape

from opwright.op import OpProto

_BEGIN = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\[[^\]=]*\])?) = ")
_END = re.compile(r"(?P<note> for [^.,;:]+)?(?:[.;:](?=\s|$)|,(?=\s)|$)| with (?=\w+ = )")
_WHEN = re.compile(r"\b((?:[Ii]n|[Aa]t) \w+|[Oo]therwise),? $")
_NORM = re.compile(r"\|([^|]+)\|")
_CASES = re.compile(r"(?P<above>[^,=]+) where x > 0, otherwise (?P<else>.+)", re.DOTALL)
_GREEK = {"alpha": "α", "beta": "β", "epsilon": "ε", "mu": "μ", "pi": "π", "gamma": "γ"}
_OPERATORS = {
    ast.Add: ("+", 1),
    ast.Sub: ("−", 1),
    ast.Mult: ("·", 2),
    ast.MatMult: ("@", 2),
    ast.Div: ("/", 2),
    ast.FloorDiv: ("//", 2),
    ast.Mod: ("mod", 2),
    ast.Pow: ("^", 4),
}
_COMPARISONS = {
    ast.Eq: "=",
    ast.NotEq: "≠",
    ast.Lt: "<",
    ast.LtE: "≤",
    ast.Gt: ">",
    ast.GtE: "≥",
}
_MINUS_LEVEL, _ATOM_LEVEL = 3, 9


@dataclass(frozen=True, slots=True)
class Formula:
    """An equation ``target = value``, or two cases if `otherwise` is given.

    Attributes
    ----------
    target, value : ast.expr
    otherwise : ast.expr or None
        The value where x is at most 0; `value` then applies where x > 0.
    note : str
        Words after the formula, such as ``for class ids``.
    """

    target: ast.expr
    value: ast.expr
    otherwise: ast.expr | None = None
    note: str = ""


def find_formulas(proto: OpProto) -> list[Formula]:
    """Return a comment's formulas for outputs, and for the terms that these formulas use."""
    text = " ".join(proto.comment.split())
    outputs = {slot.name for slot in proto.outputs}
    formulas: dict[tuple[str, str], Formula] = {}
    for match in _BEGIN.finditer(text):
        formula = _read(match[1], text[match.end() :])
        name = match[1].partition("[")[0]
        # A formula whose value is a bare name only explains a term of the surrounding text.
        if formula is None or (name not in outputs and isinstance(formula.value, ast.Name)):
            continue
        when = _WHEN.search(text[: match.start()])
        note = when[1].lower() if when else formula.note
        formulas.setdefault((name, note), replace(formula, note=note))
    wanted = outputs | {n for (of, _), f in formulas.items() if of in outputs for n in names_in(f)}
    return [formula for (name, _), formula in formulas.items() if name in wanted]


def names_in(formula: Formula) -> set[str]:
    """Return the names that the right side of a formula uses."""
    sides = [formula.value, *([formula.otherwise] if formula.otherwise else [])]
    return {n.id for side in sides for n in ast.walk(side) if isinstance(n, ast.Name)}


def _read(name: str, text: str) -> Formula | None:
    """Return the formula at the start of a string, or None if it cannot be parsed to its end."""
    target = ast.parse(name, mode="eval").body
    cases = _CASES.match(text)
    if cases:
        above, below = _parse(cases["above"]), _clause(cases["else"])
        if above is not None and below is not None:
            return Formula(target, above, below[0], below[1])
    clause = _clause(text)
    if clause is None or not any(isinstance(n, ast.Name) for n in ast.walk(clause[0])):
        return None
    return Formula(target, clause[0], None, clause[1])


def _clause(text: str) -> tuple[ast.expr, str] | None:
    """Return the expression at the start of a string, and the note after it."""
    for end in _END.finditer(text):
        expression = _parse(text[: end.start()])
        if expression is not None:
            return expression, (end["note"] or "").strip()
    return None


def _parse(text: str) -> ast.expr | None:
    """Parse numbers, names, operators, calls and subscripts; return None for anything else."""
    try:
        expression = ast.parse(_NORM.sub(r"abs(\1)", text.strip()), mode="eval").body
    except SyntaxError:
        return None
    return None if isinstance(expression, ast.Tuple) or not _is_plain(expression) else expression


def _is_plain(expression: ast.expr) -> bool:
    known = (
        ast.BinOp,
        ast.UnaryOp,
        ast.Call,
        ast.Name,
        ast.Constant,
        ast.Subscript,
        ast.Compare,
        ast.Slice,
        ast.Tuple,
        ast.operator,
        ast.USub,
        ast.cmpop,
        ast.expr_context,
    )
    return all(isinstance(node, known) for node in ast.walk(expression))


def typeset(formulas: list[Formula]) -> str:
    """Return formulas as one block of HTML, or '' if there are none."""
    lines = "\n".join(f'<math display="block">{_equation(formula)}</math>' for formula in formulas)
    return f'<div class="formula">\n{lines}\n</div>' if lines else ""


def _equation(formula: Formula) -> str:
    note = f"<mtext>\u2003{escape(formula.note)}</mtext>" if formula.note else ""
    if formula.otherwise is None:
        value = _term(formula.value, 0)
    else:
        rows = [(formula.value, "x > 0"), (formula.otherwise, "x ≤ 0")]
        cells = "".join(
            f"<mtr><mtd>{_term(side, 0)}</mtd><mtd><mtext>{escape(where)}</mtext></mtd></mtr>"
            for side, where in rows
        )
        value = f"<mrow><mo>{{</mo><mtable>{cells}</mtable></mrow>"
    return f"<mrow>{_term(formula.target, 0)}<mo>=</mo>{value}{note}</mrow>"


def _term(node: ast.expr, level: int) -> str:
    """Return an expression, in parentheses if its precedence is below `level`."""
    text, own = _write(node)
    return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>" if own < level else text


def _write(node: ast.expr) -> tuple[str, int]:
    """Return an expression and its precedence."""
    level = _ATOM_LEVEL
    match node:
        case ast.Constant():
            text = f"<mn>{'…' if node.value is ... else escape(repr(node.value))}</mn>"
        case ast.Name():
            text = _name(node.id)
        case ast.UnaryOp():
            text = f"<mrow><mo>−</mo>{_term(node.operand, _MINUS_LEVEL)}</mrow>"
            level = _MINUS_LEVEL
        case ast.Call():
            text = _call(node)
        case ast.Subscript():
            text = f"<msub>{_term(node.value, _ATOM_LEVEL)}{_position(node.slice)}</msub>"
        case ast.Compare():
            sign = escape(_COMPARISONS[type(node.ops[0])])
            left, right = _term(node.left, 1), _term(node.comparators[0], 1)
            text = f"<mrow><mo>(</mo>{left}<mo>{sign}</mo>{right}<mo>)</mo></mrow>"
        case ast.BinOp():
            text, level = _binary(node)
        case _:
            raise ValueError(f"formula: no rule to typeset {ast.unparse(node)!r}")
    return text, level


def _binary(node: ast.BinOp) -> tuple[str, int]:
    sign, level = _OPERATORS[type(node.op)]
    if isinstance(node.op, ast.Div):
        return f"<mfrac>{_term(node.left, 0)}{_term(node.right, 0)}</mfrac>", level
    if isinstance(node.op, ast.Pow):
        return f"<msup>{_term(node.left, _ATOM_LEVEL)}{_term(node.right, 0)}</msup>", level
    right = _term(node.right, level + (not isinstance(node.op, ast.Add)))
    return f"<mrow>{_term(node.left, level)}<mo>{sign}</mo>{right}</mrow>", level


def _call(node: ast.Call) -> str:
    function = ast.unparse(node.func)
    if function == "sqrt":
        return f"<msqrt>{_term(node.args[0], 0)}</msqrt>"
    if function == "abs":
        return f"<mrow><mo>|</mo>{_term(node.args[0], 0)}<mo>|</mo></mrow>"
    if function == "exp":
        return f"<msup><mi>e</mi>{_term(node.args[0], 0)}</msup>"
    inner = "<mo>,</mo>".join(_term(arg, 0) for arg in node.args)
    return f"<mrow>{_name(function)}<mo>(</mo>{inner}<mo>)</mo></mrow>"


def _position(node: ast.expr) -> str:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    texts = ["<mo>:</mo>" if isinstance(p, ast.Slice) else _term(p, 0) for p in parts]
    return f"<mrow>{'<mo>,</mo>'.join(texts)}</mrow>"


def _name(name: str) -> str:
    match = re.fullmatch(r"([a-z]+)(\d*)", name)
    if match and match[1] in _GREEK:
        letter = f"<mi>{_GREEK[match[1]]}</mi>"
        return f"<msub>{letter}<mn>{match[2]}</mn></msub>" if match[2] else letter
    return f"<mi>{escape(name)}</mi>"
