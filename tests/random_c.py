"""Random C functions whose loops all end: what the worst-case analysis must bound, or refuse with a reason."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

HEADS = (
    "for ({type} {i} = {start}; {i} < ({type})({limit}); {i} += {step})", "for (int {i} = {limit}; {i} > 0; {i} -= {step})",
    "for (int {i} = 1; {i} < 60 + ({limit}); {i} *= 2)", "for (unsigned {i} = 0x1000u; {i} != 0; {i} >>= {step})",
    "for (int {i} = 0; {i} != {start} + 5; {i}++)",
)
TYPES = ("int", "int", "unsigned", "short", "unsigned char", "signed char")


@dataclass(frozen=True)
class Scope:
    """What may be named at a place: values, variables to be written, arrays with their sizes, limits of loops."""

    values: tuple[str, ...] = ("x", "y", "a", "b")
    written: tuple[str, ...] = ("x", "y")
    arrays: tuple[tuple[str, int], ...] = ()
    limits: tuple[str, ...] = ()


class Writer:
    """Writes one function `int NAME(const int p[16], signed char q[32], int a, int b)` and what it calls."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.rng, self.count, self.helpers = name, random.Random(seed), 0, list[str]()

    def function(self) -> str:
        """The C text; KEPT is what keeps a function from being inlined."""
        table = f"static const signed char {self.name}_t[4] = {{{', '.join(str(self.rng.randint(1, 12)) for _ in range(4))}}};"
        scope = Scope(limits=tuple(f"{self.name}_t[{k}]" for k in range(4)))
        body = self._block(scope, 3)
        return "\n".join([table, *self.helpers, self._definition(self.name, body, "")])

    def _definition(self, name: str, body: str, static: str) -> str:
        return (f"{static}KEPT int {name}(const int *p, signed char *q, int a, int b)\n{{\nint x = a, y = b;\n{body}\n"
                "q[3] += (signed char)(x + y); return x;\n}")

    def _new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _value(self, s: Scope) -> str:
        r = self.rng
        return r.choice([str(r.randint(-9, 40)), *s.values, f"p[{r.randint(0, 15)}]", f"p[({r.choice(s.values)}) & 15]"])

    def _expression(self, s: Scope, depth: int = 2) -> str:
        r = self.rng
        if depth == 0 or r.random() < .3:
            return self._value(s)
        x, y = self._expression(s, depth - 1), self._expression(s, depth - 1)
        return r.choice([*(f"({x} {op} {y})" for op in "+-*&|^"), f"({x} >> {r.randint(0, 31)})",
                         f"({x} / {r.choice([3, 7, -3])})", f"(int)((unsigned){x} << ({y} & 31))",
                         f"({x} / (({y} & 7) + 1))", f"(({x} < {y}) ? {x} : {y})",
                         f"(int)(((long long){x} * {y}) >> {r.randint(1, 40)})", f"(signed char)({x})", f"({x} == {y})"])

    def _condition(self, s: Scope) -> str:
        return f"{self._expression(s, 1)} {self.rng.choice(['<', '>', '==', '!='])} {self._expression(s, 1)}"

    def _limit(self, s: Scope) -> str:
        constant = str(self.rng.randint(1, 14))
        return self.rng.choice([constant, constant, *s.limits[-2:], f"(({self._expression(s, 1)}) & 7)"])

    def _block(self, s: Scope, depth: int) -> str:
        return "\n".join(self._statement(s, depth) for _ in range(self.rng.randint(1, 3)))

    def _statement(self, s: Scope, depth: int) -> str:
        flat: list[Callable[[Scope, int], str]] = [self._assignment, self._store]
        nested = [self._branch, self._loop, self._loop, self._countdown, self._switch, self._array, self._changed_limit,
                  self._call]
        return self.rng.choice(flat if depth <= 0 else flat + nested)(s, depth - 1)

    def _assignment(self, s: Scope, _: int) -> str:
        return f"{self.rng.choice(s.written)} {self.rng.choice(['=', '+=', '^='])} {self._expression(s)};"

    def _store(self, s: Scope, _: int) -> str:
        array, size = self.rng.choice([("q", 32), *s.arrays])
        return f"{array}[({self._expression(s, 1)}) & {size - 1}] = (signed char)({self._expression(s, 1)});"

    def _branch(self, s: Scope, depth: int) -> str:
        other = f" else {{ {self._block(s, depth)} }}" if self.rng.random() < .5 else ""
        return f"if ({self._condition(s)}) {{ {self._block(s, depth)} }}{other}"

    def _loop(self, s: Scope, depth: int) -> str:
        r, i = self.rng, self._new("i")
        head = r.choice(HEADS).format(i=i, type=r.choice(TYPES), start=r.choice([0, 0, 1, 2]), step=r.choice([1, 1, 2, 3]),
                                      limit=self._limit(s))
        inner = replace(s, values=(*s.values, i), limits=(*s.limits, f"({i} & 15)"))
        leave = r.choice(["", "", f"if ({self._condition(inner)}) break;", f"if ({self._condition(inner)}) continue;"])
        return f"{head} {{ {leave} {self._block(inner, depth)} }}"

    def _countdown(self, s: Scope, depth: int) -> str:
        i = self._new("w")
        body = self._block(replace(s, values=(*s.values, i)), depth)
        early = self.rng.choice(["", f" && {self._condition(s)}"])
        return f"{{ int {i} = {self.rng.randint(1, 9)}; do {{ {body} }} while (--{i} > 0{early}); }}"

    def _switch(self, s: Scope, depth: int) -> str:
        cases = [f"case {k}: {self._block(s, depth - 1)} {self.rng.choice(['break;', 'break;', ''])}"
                 for k in self.rng.sample(range(12), self.rng.randint(3, 9))]
        return f"switch (({self._expression(s, 1)}) & 15) {{ {' '.join(cases)} default: {self._assignment(s, 0)} }}"

    def _array(self, s: Scope, depth: int) -> str:
        array, size = self._new("A"), self.rng.choice([4, 8, 16])
        values = ", ".join(str(self.rng.randint(1, 9)) for _ in range(size))
        inner = replace(s, arrays=(*s.arrays, (array, size)), limits=(*s.limits, f"({array}[{self.rng.randrange(size)}] & 15)"))
        return (f"{{ {self.rng.choice(['int', 'short'])} {array}[{size}] = {{{values}}}; {self._block(inner, depth)} "
                f"{self._block(inner, depth)} q[0] += (signed char){array}[1]; }}")

    def _changed_limit(self, s: Scope, depth: int) -> str:
        """A limit in a variable that a branch may change, or a function that has its address."""
        n, change = self._new("n"), f"{self.name}_{self._new('m')}"
        more = self.rng.choice(["3", "(z & 3)", "(z > 4)"])
        self.helpers.append(f"static KEPT void {change}(int *n, int z) {{ *n += {more}; }}")
        how = self.rng.choice([f"if ({self._condition(s)}) {n} = {self.rng.randint(2, 12)};",
                               f"{change}(&{n}, {self._value(s)});"])
        inner = replace(s, values=(*s.values, n), limits=(*s.limits, n))
        return f"{{ int {n} = {self.rng.randint(2, 9)}; {how} (void){change}; {self._block(inner, depth)} }}"

    def _call(self, s: Scope, depth: int) -> str:
        name = f"{self.name}_{self._new('h')}"
        body = self._block(Scope(limits=("(a & 15)",)), min(depth, 1))
        self.helpers.append(self._definition(name, body, "static "))
        return f"{self.rng.choice(s.written)} += {name}(p, q, {self._limit(s)}, {self._expression(s, 1)});"
