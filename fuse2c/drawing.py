"""The graph with its kernels, for people: a tree of text, and a file for Graphviz."""
from __future__ import annotations

from collections.abc import Iterable

from fuse2c.ir.types import TensorType
from fuse2c.plan import Plan, Step


def tree(plan: Plan) -> Iterable[str]:
    """Kernel, its steps if there are several, the operators of each and the model's nodes that they came from."""
    groups = plan.kernel_steps
    yield f"{plan.graph.name}: {len(groups)} kernels"
    for number, group in enumerate(groups, 1):
        last = number == len(groups)
        yield f"{'`' if last else '|'}-- kernel {number}"
        margin = "    " if last else "|   "
        for position, i in enumerate(group):
            step, final = plan.steps[i], position == len(group) - 1
            yield f"{margin}{'`' if final else '|'}-- {step.function}: {_shapes(plan, step)}"
            inner = margin + ("    " if final else "|   ")
            for k, n in enumerate(step.node.parts):
                end = k == len(step.node.parts) - 1
                names = ", ".join(n.origin) or n.name
                yield f"{inner}{'`' if end else '|'}-- {n.op}  {names}"


def _shapes(plan: Plan, step: Step) -> str:
    g = plan.graph
    read = [_shape(g.type(t)) for t in step.node.inputs if t and g.data(t) is None]
    return f"{', '.join(read) or 'nothing'} -> {', '.join(_shape(g.type(t)) for t in step.node.outputs)}"


def _shape(t: TensorType) -> str:
    return f"{t.dtype.value} {'x'.join(map(str, t.shape)) or 'scalar'}"


def dot(plan: Plan) -> str:
    """Boxes are kernels, nodes their steps, edges the tensors with what they take: whole, or a ring of rows."""
    g, made = plan.graph, {t: i for i, s in enumerate(plan.steps) for t in s.node.outputs}
    lines = [f"digraph {_quoted(g.name)} {{", "  node [shape=box, fontname=monospace];"]
    for number, group in enumerate(plan.kernel_steps, 1):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(f'kernel {number}')};"]
        for i in group:
            chain = " > ".join(n.op for n in plan.steps[i].node.parts)
            lines.append(f"    s{i} [label={_quoted(f'{plan.steps[i].function}: {chain}')}];")
        lines.append("  }")
    lines += [f"  {_quoted(t)} [shape=oval];" for t in (*plan.inputs, *plan.outputs)]
    for i, s in enumerate(plan.steps):
        for t in dict.fromkeys(t for t in s.node.inputs if t and g.data(t) is None):
            source = _producer(plan, t, made)
            ring = plan.rings.get(plan.root(t))
            size = f"{ring} rows" if ring else f"{g.type(t).bytes:,} B"
            lines.append(f"  {source} -> s{i} [label={_quoted(f'{_shape(g.type(t))}, {size}')}];")
        lines += [f"  s{i} -> {_quoted(t)};" for t in s.node.outputs if t in plan.outputs]
    return "\n".join([*lines, "}", ""])


def _producer(plan: Plan, t: str, made: dict[str, int]) -> str:
    """The step or the input that a tensor comes from, through views."""
    while t not in made and t in plan.views:
        t = plan.views[t]
    return f"s{made[t]}" if t in made else _quoted(t)


def _quoted(text: str) -> str:
    escaped = "".join(ch if ch.isprintable() else "?" for ch in text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
