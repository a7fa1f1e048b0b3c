"""Where the two ways of a branch meet again without a loop, a call or a return on them."""
from __future__ import annotations

import networkx as nx

from fuse2c.wcet.cfg import EXIT, Function

PLAIN = ("fall", "jump", "branch")


def joins(function: Function) -> dict[int, int]:
    """For each branch whose ways are short: the block where they meet, which all of them reach."""
    graph = nx.DiGraph()
    graph.add_node(EXIT)
    for b in function.blocks.values():
        graph.add_edges_from((to, b.start) for to in b.successors)
        if not b.successors or b.ends in ("tail", "indirect"):
            graph.add_edge(EXIT, b.start)
    after = nx.immediate_dominators(graph, EXIT)
    found = {}
    for start, block in function.blocks.items():
        join = after.get(start)
        if block.ends == "branch" and join not in (None, EXIT, start) and _short(function, start, join):
            found[start] = join
    return found


def _short(function: Function, start: int, join: int) -> bool:
    """Whether every block on the way is plain and in the same loops, and none is a loop's header."""
    nest = function.nest[start]
    work, seen = list(function.blocks[start].successors), {join}
    while work:
        at = work.pop()
        if at in seen:
            continue
        seen.add(at)
        block = function.blocks[at]
        if block.ends not in PLAIN or block.conditional or at in function.loops or function.nest[at] != nest:
            return False
        work += block.successors
    return True
