"""What a program of loop nests does, for its price: see _program.py."""
from __future__ import annotations

from collections.abc import Iterable
from math import prod

from fuse2c.kernels import functions
from fuse2c.op import EFFORT, FUNCTION, Contraction, Reduction, bind
from fuse2c.ops import all_ops
from fuse2c.ops._program import Item, Pass, Program, again

OPERATIONS = {"QuantizeLinear": 12, "DequantizeLinear": 2}       # of an operator: rounded, limited, converted; else one


def of(p: Program) -> dict[str, int]:
    """Trips of loops, elements that they load or store, products, operations on elements, passes; all rows together."""
    found, rows = dict.fromkeys((*EFFORT, "alu", FUNCTION), 0), prod(p.shape(p.results[0])[axis] for axis in p.outer)
    for one in p.passes:
        products = [i for i in one.items if isinstance(i.form, Contraction)]
        summed = (prod(p.inner(i.node.inputs[0])) for i in one.items if isinstance(i.form, Reduction))
        trips = max(prod(one.inner), *summed, 0)
        operands = {t for i in one.items for t in i.node.inputs if t} - {i.y for i in one.items}
        found["tile"] += rows * trips
        found["load"] += rows * trips * moved(p, one)
        found["multiply"] += rows * sum(prod(p.inner(i.y)) * p.shape(i.node.inputs[0])[-1] for i in products)
        found["alu"] += rows * trips * (sum(OPERATIONS.get(i.node.op, 1) for i in one.items if i.computed)
                                        + sum(again(p, t) for t in operands))
        found["line"] += rows
        found[FUNCTION] += rows * (trips * called(p, one.items) + called(p, one.after))
    found[FUNCTION] += rows * called(p, p.before)
    return found


def moved(p: Program, one: Pass) -> int:
    """Elements that a trip of a pass loads and stores, beside those of products."""
    items = [i for i in one.items if not isinstance(i.form, Contraction)]
    own = {i.y for i in one.items}
    operands = {t for i in items for t in i.node.inputs if t} - own
    loaded = [t for t in operands if not p.is_number(t) and p.graph.type(t).count > 1]
    return len(loaded) + sum(y in p.stored or y in p.results for y in own)


def called(p: Program, items: Iterable[Item]) -> int:
    """Instructions of the runtime's functions that operators call for an element."""
    texts = []
    for i in items:
        scalar = all_ops()[i.node.op].scalar
        if i.form is None and scalar is not None and not (c := bind(p.graph, i.node)).quantised:
            texts.append(scalar(c).expr)
        elif isinstance(i.form, Reduction):
            texts += [a.update for a in i.form.accumulators]
    return sum(map(functions.instructions, texts))
