"""Index expressions in the kernels' language."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.precedence import PRECEDENCE
from torch.utils._sympy.printers import ExprPrinter


class IndexPrinter(ExprPrinter):
    """Variables and results are i32 or i64; what has a remainder divides as Python's // and % do."""

    def _print_Integer(self, expr: Any, level: Any = None) -> str:
        value = int(expr)
        return f"{value}L" if abs(value) >= 2**31 else str(value)

    def _divide(self, dividend: sympy.Expr, divisor: sympy.Expr, operation: str) -> str:
        a, b = self.doprint(dividend), self.doprint(divisor)
        if dividend.is_nonnegative and divisor.is_positive:
            return f"(({a}) {'/' if operation == 'floordiv' else '%'} ({b}))"
        return f"{operation}_i64({a}, {b})"

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        return self._divide(expr.args[0], expr.args[1], "floordiv")

    _print_CleanDiv = _print_FloorDiv

    def _print_ModularIndexing(self, expr: sympy.Expr) -> str:
        dividend, divisor, modulus = expr.args
        quotient = self.doprint(dividend) if divisor == 1 else self._divide(dividend, divisor, "floordiv")
        if dividend.is_nonnegative and divisor.is_positive and modulus.is_positive:
            return f"(({quotient}) % ({self.doprint(modulus)}))"
        return f"remainder_i64({quotient}, {self.doprint(modulus)})"

    def _print_Mod(self, expr: sympy.Expr) -> str:
        return self._divide(expr.args[0], expr.args[1], "remainder")

    _print_PythonMod = _print_Mod

    def _extremum(self, expr: sympy.Expr, comparison: str) -> str:
        first, *others = [str(self.doprint(argument)) for argument in expr.args]
        for other in others:
            first = f"(({first}) {comparison} ({other}) ? ({first}) : ({other}))"
        return first

    def _print_Min(self, expr: sympy.Expr) -> str:
        return self._extremum(expr, "<")

    def _print_Max(self, expr: sympy.Expr) -> str:
        return self._extremum(expr, ">")

    def _print_Abs(self, expr: sympy.Expr) -> str:
        value = self.doprint(expr.args[0])
        return f"(({value}) < 0 ? -({value}) : ({value}))"

    def _print_Where(self, expr: sympy.Expr) -> str:
        condition, yes, no = (self.parenthesize(arg, PRECEDENCE["Atom"] - 0.5) for arg in expr.args)
        return f"({condition} ? {yes} : {no})"

    def _print_Identity(self, expr: sympy.Expr) -> str:
        return f"({self.doprint(expr.args[0])})"

    def _print_ToFloat(self, expr: sympy.Expr) -> str:
        return f"((f64)({self.doprint(expr.args[0])}))"

    def _print_FloatTrueDiv(self, expr: sympy.Expr) -> str:
        a, b = map(self.doprint, expr.args)
        return f"((f64)({a}) / (f64)({b}))"

    _print_IntTrueDiv = _print_FloatTrueDiv

    def _print_TruncToInt(self, expr: sympy.Expr) -> str:
        return f"((i64)({self.doprint(expr.args[0])}))"

    def _print_FloorToInt(self, expr: sympy.Expr) -> str:
        return f"((i64)floor_f64({self.doprint(expr.args[0])}))"

    _print_floor = _print_FloorToInt

    def _print_CeilToInt(self, expr: sympy.Expr) -> str:
        return f"((i64)ceil_f64({self.doprint(expr.args[0])}))"

    _print_ceiling = _print_CeilToInt

    def _print_RoundToInt(self, expr: sympy.Expr) -> str:
        return f"((i64)round_f64({self.doprint(expr.args[0])}))"

    def _print_Float(self, expr: sympy.Expr) -> str:
        return repr(float(expr))

    def _print_PowByNatural(self, expr: sympy.Expr) -> str:
        base, exponent = map(self.doprint, expr.args)
        return f"pow_i64({base}, {exponent})"
