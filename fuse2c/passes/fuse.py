"""Apply the fusion rules, best first: groups of nodes become single nodes."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuse2c.fusion.dsl import Fuse, barred, body, operands, results
from fuse2c.fusion.rules import rules
from fuse2c.ir.graph import Graph, Node
from fuse2c.kernels import vector
from fuse2c.op import Call, Group, Kernel, bind
from fuse2c.ops import all_ops
from fuse2c.passes import _registers
from fuse2c.passes.select import anchor_call, refuse
from fuse2c.passes.split import part
from fuse2c.plan import Decision, Plan

MANY = 2 ** 14      # weights from which on a kernel with vectors gains more than a launch costs


def run(plan: Plan) -> Plan:
    """Fused nodes keep the nodes they replaced as their body."""
    graph, log, settled = plan.graph, dict[Decision, None](), list[Node]()
    chosen = [r for r in rules() if r.name not in plan.options.no_fuse_rules]
    for rule in chosen if plan.options.fuse else ():
        # From the end: where two branches meet, the later one takes over what follows, and the other need not wait.
        for seed in [n for n in reversed(graph.nodes) if n.op in rule.seeds]:
            there = any(n is seed for n in graph.nodes) and all(n is not seed for n in settled)
            there = there and not (rule.upwards and rule.joins(graph, (), seed))
            if there and rule.into and (why := apart(plan, graph, seed)):
                log[Decision("fuse", f"{rule.name} at {seed.name}", False, why)] = None
                continue
            group = grown(plan, graph, rule, seed, log, settled) if there else ()
            loops, why = parts(plan, graph, rule, group)
            if why:
                log[Decision("fuse", f"{rule.name} at {_names(group)}", False, why)] = None
            for loop in loops:
                if len(loop) > 1:
                    log[Decision("fuse", f"{rule.name} at {_names(loop)}", True, rule.pays)] = None
                    node = fused(graph, rule, loop, seed if any(n is seed for n in loop) else loop[0])
                    graph = graph.swap(loop, (node,)).sorted()
                    loop = (node,)
                settled += loop if why else ()
    inside = {t for n in graph.nodes for part in n.body for t in part.outputs}
    views = {t: owner for t, owner in plan.views.items() if t not in inside}
    return replace(plan, graph=graph, views=views, decisions=plan.decisions + tuple(log))


def parts(plan: Plan, g: Graph, rule: Fuse, group: Sequence[Node]) -> tuple[list[tuple[Node, ...]], str]:
    """A group in as many loops as take least, and why there are several."""
    def served(loop: Sequence[Node]) -> Kernel | None:
        node = fused(g, rule, loop, loop[0]) if len(loop) > 1 else loop[0]
        return _kernel(plan, node, anchor_call(replace(plan, graph=g), node))
    several = rule.into == "Elementwise" and len(group) > 1
    return _registers.parts(plan, g, tuple(group), served) if several else ([tuple(group)], "")


def _kernel(plan: Plan, node: Node, call: Call) -> Kernel | None:
    """The kernel that would be selected for a node."""
    return next((k for k in all_ops()[node.op].kernels if not k.offer and not refuse(k, plan.target.processor, call)), None)


def apart(plan: Plan, g: Graph, node: Node) -> str:
    """Why a node is better no part of a loop nest: it has many weights, and a kernel that uses the vectors of the target."""
    call = replace(bind(g, node), group=Group(g, node))
    found = _kernel(plan, node, call)
    many = sum(w.size for w in call.const if w is not None) >= MANY
    return f"its own kernel {found.name} is faster" if many and found is not None and found.needs & vector.NEEDS else ""


def grown(plan: Plan, g: Graph, rule: Fuse, seed: Node, log: dict[Decision, None], settled: Sequence[Node]) -> tuple[Node, ...]:
    """The largest group around `seed` that is one kernel, without what is `settled`; what stopped it goes to `log`.

    A group may be no kernel for a while, until all readers of a tensor have joined. What leads nowhere is left out,
    and the group grows elsewhere.
    """
    place = {id(n): i for i, n in enumerate(g.nodes)}
    best: tuple[Node, ...] = (seed,)
    refused = {id(n) for n in settled}
    while True:
        group, first, reason = best, None, ""
        while near := [n for n in _neighbours(g, rule, group) if id(n) not in refused]:
            node = min(near, key=lambda n: place[id(n)])
            why = _barred(g, group, node, plan.options.fuse_barriers) or rule.joins(g, group, node)
            if why := why or (apart(plan, g, node) if rule.into else ""):
                refused.add(id(node))
                log[Decision("fuse", f"{rule.name} at {_names(group)} > {node.name}", False, why)] = None
                continue
            first = first or node
            group = tuple(sorted((*group, node), key=lambda n: place[id(n)]))
            reason = convex(g, group) or next((why for check in rule.where if (why := check(g, group))), "")
            if not reason:
                best, first = group, None
        if first is None:
            return best
        refused.add(id(first))
        log[Decision("fuse", f"{rule.name} at {_names(group)}", False, reason)] = None


def _barred(g: Graph, group: Sequence[Node], node: Node, barriers: Sequence[str]) -> str:
    """Whether an edge between a node and the group passes a barrier; parts of a layer stay apart, as each is to be short."""
    if part(node) != part(group[0]):
        return "another part of a layer"
    if not barriers:
        return ""
    edges = [n for n in group if any(t in node.inputs for t in n.outputs)]
    edges += [node] * any(t in n.inputs for n in group for t in node.outputs)
    return next((why for n in edges if (why := barred(barriers, n))), "")


def _neighbours(g: Graph, rule: Fuse, group: Sequence[Node]) -> list[Node]:
    """Nodes that read what the group writes; upwards also those that write, or read as well, what it reads."""
    members = {id(n) for n in group}
    found = [u for n in group for t in n.outputs for u in g.users(t)]
    if rule.upwards:
        outside = [t for t in operands(group) if g.data(t) is None]
        found += [p for t in outside if (p := g.producer(t)) is not None]
        found += [u for t in outside for u in g.users(t)]
    return [n for n in {id(n): n for n in found}.values() if id(n) not in members]


def convex(g: Graph, group: Sequence[Node]) -> str:
    """No path leaves the group and comes back."""
    members = {id(n) for n in group}
    inside, outside = set[str](), set[str]()
    for n in g.nodes:
        if id(n) in members:
            if back := [t for t in n.inputs if t in outside]:
                return f"{back[0]} depends on another result of the group"
            inside.update(n.outputs)
        elif any(t in inside or t in outside for t in n.inputs):
            outside.update(n.outputs)
    return ""


def fused(g: Graph, rule: Fuse, group: Sequence[Node], seed: Node) -> Node:
    """One node whose body is the group in order."""
    origin = tuple(dict.fromkeys(name for n in group for name in n.origin))
    return Node(seed.name, rule.into or seed.op, operands(group), results(g, group),
                None if rule.into else seed.attrs, body(group), origin)


def _names(group: Sequence[Node]) -> str:
    return " > ".join(n.name for n in group)
