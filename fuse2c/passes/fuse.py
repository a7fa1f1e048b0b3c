"""Apply the fusion rules, best first, until none applies."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.fusion.dsl import Fuse, Match, find
from fuse2c.fusion.rules import rules
from fuse2c.ir.graph import Graph, Node
from fuse2c.plan import Decision, Plan


def run(plan: Plan) -> Plan:
    """Fused nodes keep the nodes they replaced as their body."""
    graph, log = plan.graph, list[Decision]()
    seen: set[str] = set()
    for rule in rules() if plan.options.fuse else ():
        position = 0
        while position < len(graph.nodes):
            m = _applicable(graph, rule, graph.nodes[position], seen, log)
            if m is None:
                position += 1
                continue
            graph = graph.swap(tuple(m.values()), (fused(rule, m),))
            position = max(0, position - len(m))
    return replace(plan, graph=graph, decisions=plan.decisions + tuple(log))


def _applicable(g: Graph, rule: Fuse, root: Node, seen: set[str], log: list[Decision]) -> Match | None:
    """The first match at `root` that passes all checks; every verdict is logged once."""
    for m in find(g, root, rule.match):
        subject = f"{rule.name} at {' > '.join(n.name for n in m.values())}"
        reason = next((why for check in rule.where if (why := check(g, m))), "")
        if subject not in seen or not reason:
            seen.add(subject)
            log.append(Decision("fuse", subject, not reason, reason or rule.pays))
        if not reason:
            return m
    return None


def fused(rule: Fuse, m: Match) -> Node:
    """One node whose body is the match in order."""
    body = tuple(b for n in m.values() for b in n.parts)
    made = {t for n in body for t in n.outputs}
    inputs = tuple(dict.fromkeys(t for n in body for t in n.inputs if t and t not in made))
    anchor = m[rule.into]
    origin = tuple(dict.fromkeys(name for n in m.values() for name in n.origin))
    return Node(anchor.name, anchor.op, inputs, body[-1].outputs, anchor.attrs, body, origin)
