"""A stable dump, one line a node: what --dump-after prints."""
from __future__ import annotations

from fuse2c.ir.graph import Graph


def dump(g: Graph) -> str:
    """The graph as text, the same for the same graph."""
    lines = [f"input {t}: {g.type(t)}" for t in g.inputs]
    for n in g.nodes:
        outs = ", ".join(f"{t}: {g.type(t)}" for t in n.outputs)
        body = f"  = {' > '.join(b.op for b in n.body)}" if n.body else ""
        args = ", ".join(f"{t} {g.type(t)}" if g.data(t) is not None else t or "-" for t in n.inputs)
        lines.append(f"{outs} = {n.op}({args})  # {n.name}{body}")
    lines += [f"output {t}: {g.type(t)}" for t in g.outputs]
    return "\n".join(lines) + "\n"
