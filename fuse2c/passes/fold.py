"""Apply the folds until none applies: structure first, then quantisation, then constants, then weights."""
from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from fuse2c.errors import InternalError, PlanError
from fuse2c.fusion import catalog, folds, quantise, signs
from fuse2c.fusion.dsl import Fold, Rewrite, barred, find
from fuse2c.fusion.rules import rules as fusions
from fuse2c.ir.graph import Graph, Node
from fuse2c.ir.types import DType
from fuse2c.kernels import vector
from fuse2c.plan import Decision, Plan

ROUNDS = 10_000     # rewrites of one model: a rule that undoes another's work would never end


def run(plan: Plan) -> Plan:
    """All folds; with --no-fuse only constants are computed."""
    check_names(plan)
    g, log, barriers = plan.graph, list[Decision](), plan.options.fuse_barriers

    def chosen(rules: Sequence[Fold]) -> list[Fold]:
        return [r for r in rules if r.name not in plan.options.no_fuse_rules]
    if plan.options.fuse:
        g = exhaust(g, chosen(catalog.structure()), log, barriers)
        # Dot products of x86 take unsigned values by signed weights; Arm's cores have more for signed ones.
        sign = DType.U8 if vector.NEEDS.issubset(plan.target.processor.features) else DType.I8
        g = exhaust(quantise.propagate_quant(signs.unified(g, sign)), chosen(catalog.integers()), log, barriers)
    g = exhaust(g.pruned(), (folds.constants(),), log)
    if plan.options.fuse:
        g = exhaust(g, chosen(catalog.weights()), log, barriers)
    return replace(plan, graph=g.pruned(), decisions=plan.decisions + tuple(log))


def check_names(plan: Plan) -> None:
    """Raise PlanError for a rule or a node that does not exist."""
    known = {r.name for r in catalog.folds()} | {r.name for r in fusions()} | {"join", "in-place"}
    nodes = {name for n in plan.graph.nodes for name in n.origin}
    for kind, option, names, given in (("rule", "--no-fuse-rule", known, plan.options.no_fuse_rules),
                                       ("node", "--fuse-barrier", nodes, plan.options.fuse_barriers)):
        for name in given:
            if name not in names:
                close = difflib.get_close_matches(name, sorted(names), 3)
                raise PlanError(f"{option}: there is no {kind} {name!r}",
                                hint=f"did you mean {' or '.join(close)}?" if close else
                                "`fuse2c list rules` has the rules" if kind == "rule" else "`fuse2c inspect` has the nodes")


def exhaust(g: Graph, rules: Sequence[Fold], log: list[Decision], barriers: Sequence[str] = ()) -> Graph:
    """Apply the rules until none matches; refusals are logged once."""
    refused: set[str] = set()
    for _ in range(ROUNDS):
        done = _first(g, rules, log, refused, barriers)
        if done is None:
            return g
        g = done
    raise InternalError(f"the folds {', '.join(r.name for r in rules)} do not come to an end")


def _first(g: Graph, rules: Sequence[Fold], log: list[Decision], refused: set[str], barriers: Sequence[str]
           ) -> Graph | None:
    """The graph after one sweep of the first rule that applies anywhere; None if no rule applies."""
    for rule in rules:
        changed, position = False, 0
        while position < len(g.nodes):
            rewrite = _rewrite(g, rule, g.nodes[position], log, refused, barriers)
            if rewrite is None:
                position += 1
                continue
            g, before = rewrite.apply(g), len(g.nodes)
            position = max(0, position - max(0, before - len(g.nodes)))
            changed = True
        if changed:
            return g
    return None


def _rewrite(g: Graph, rule: Fold, root: Node, log: list[Decision], refused: set[str], barriers: Sequence[str]
             ) -> Rewrite | None:
    """The first match at `root` that the rule accepts; refusals are logged once, constants not at all."""
    for m in find(g, root, rule.match):
        subject = f"{rule.name} at {' > '.join(n.name for n in m.values())}"
        result = next((why for n in list(m.values())[:-1] if (why := barred(barriers, n))), "") or rule.rewrite(g, m)
        taken = isinstance(result, Rewrite)
        if rule.name != "constant" and result != "" and (taken or subject not in refused):
            refused.add(subject)
            log.append(Decision("fold", subject, taken, rule.pays if isinstance(result, Rewrite) else result))
        if isinstance(result, Rewrite):
            log += [Decision("fold", subject, True, result.note)] * bool(result.note)
            return result
    return None
