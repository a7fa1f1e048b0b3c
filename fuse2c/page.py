"""A study as one HTML page that needs nothing else: text and pictures for templates/report.html.j2."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuse2c import plots, study
from fuse2c.codegen import render
from fuse2c.errors import printable

NAMES, SHORT = 120, 24      # characters of the names of a step's nodes; of an input or output

SECTIONS = (("plan", "Plan"), ("memory", "Memory"), ("roofline", "Roofline"), ("kernels", "Kernels"), ("front", "Schedules"),
            ("decisions", "Decisions"), ("wcet", "Worst case"))
HEADS = ("#", "kernel, step", "MAC", "instructions", "cycles", "at worst", "time, ms", "energy, µJ", "share", "bytes",
         "operations a byte", "bound by", "times below the roof")
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def html(r: Mapping[str, Any]) -> str:
    """The page of a study. Raises ToolMissing without matplotlib."""
    clock, decisions = r["target"]["clock_hz"], _decisions(r["decisions"])
    return render.page(
        "report.html.j2", r=r, sections=SECTIONS, clock=f"{clock / 1e6:g} MHz" if clock else "", tiles=_tiles(r),
        comparison=comparison(r), kernels=[_box(k, bool(r["cores"])) for k in r["kernels"]], ends=r["ends"],
        choices=f"{len(r['decisions'])} choices for {len(decisions)} reasons", decisions=decisions, heads=HEADS,
        rows=_rows(r["kernels"]), worst=_worst(r["wcet"]), pictures={
            "memory": render.markup(plots.memory_map(r["memory"])),
            "roofs": [render.markup(plots.roofline(roof, _points(r, roof["memory"]))) for roof in r["roofs"]],
            "front": render.markup(plots.pareto([(p["ram"], p["cycles"], "", p["chosen"]) for p in r["front"]],
                                                "RAM, bytes", "cycles, predicted")),
            "plan": render.markup(_graph(r))})


def number(value: float | None, digits: int = 3) -> str:
    """A figure for people: whole numbers with separators, others with a few digits; unknown ones as a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def short(value: float | None) -> str:
    """A large figure with a prefix: 11.6 M."""
    if value is None:
        return "–"
    size, prefix = next(((s, p) for s, p in PREFIXES if abs(value) >= s), (1.0, ""))
    return f"{value / size:.3g}\N{NO-BREAK SPACE}{prefix}".rstrip("\N{NO-BREAK SPACE}")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}" if abs(share) < 0.9995 or share == 1 else f"{share:.2%}"


def _tile(label: str, value: str, note: str = "") -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _tiles(r: Mapping[str, Any]) -> list[dict[str, str]]:
    """The summary in a few figures, each with what fusion saved of it."""
    f = r["figures"]["fused"]
    def note(key: str) -> str:
        share = study.saved(r, key)
        return "" if share is None or share < 0.0005 else f"{_percent(share)} less than unfused"
    found = [_tile("kernel launches", number(f["launches"]), note("launches")),
             _tile("RAM, bytes", number(f["ram_bytes"]), note("ram_bytes")),
             _tile("weights, bytes", number(f["weight_bytes"]), note("weight_bytes")),
             _tile("cycles", short(f["cycles"]), note("cycles")),
             _tile("intermediates, bytes", number(f["intermediate_bytes"]), note("intermediate_bytes"))]
    if r["cores"]:
        found.append(_tile("cores", " + ".join(r["cores"]["names"]), f"{r['cores']['speedup']:.2f} times as fast as one"))
    if f["time_ms"] is not None:
        found.append(_tile("time, ms", number(f["time_ms"]), note("time_ms")))
    if f["energy_uj"] is not None:
        found += [_tile("energy, µJ", number(f["energy_uj"]), note("energy_uj")),
                  _tile("operations per watt second", short(f["operations_per_watt"]), _times_as_many(r))]
    if r["wcet"] is not None:
        found.append(_worst(r["wcet"])[0] | {"label": "instructions, proven"})
    return found


def _times_as_many(r: Mapping[str, Any]) -> str:
    before, after = (r["figures"][which]["operations_per_watt"] for which in ("unfused", "fused"))
    return f"{after / before:.3g} times as many" if before and after else ""


def comparison(r: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows of the table before and after fusion: label, unfused, fused, saved, limit."""
    before, after, least = (r["figures"][which] for which in ("unfused", "fused", "limits"))
    rows = []

    def row(label: str, key: str, show: Any = number) -> None:
        rows.append({"label": label, "unfused": show(before[key]), "fused": show(after[key]),
                     "saved": _percent(study.saved(r, key)), "limit": show(least[key])})
    row("kernel launches", "launches")
    row("calls of kernel functions", "calls")
    row("launch overhead, cycles", "launch_cycles")
    row("intermediates, bytes", "intermediate_bytes")
    for name in after["traffic"]:
        a, b = before["traffic"][name], after["traffic"][name]
        rows.append({"label": f"bytes to and from {name}", "unfused": number(a), "fused": number(b),
                     "saved": _percent(1 - b / a if a else None), "limit": number(least["traffic"][name])})
    row("instructions, predicted", "instructions")
    if r["measured"]:
        a, b = r["measured"]["unfused"], r["measured"]["fused"]
        rows.append({"label": "instructions, measured in QEMU", "unfused": number(a), "fused": number(b),
                     "saved": _percent(1 - b / a if a and b else None), "limit": "–"})
        for label, key in (("values that wait on the stack, words, measured", "slots"),
                           ("stack accesses in innermost loops, measured", "inner")):
            a, b = (None if r["measured"][which] is None else sum(s[key] for s in r["measured"][which])
                    for which in ("spills_unfused", "spills"))
            rows.append({"label": label, "unfused": number(a), "fused": number(b), "saved": "–", "limit": "–"})
    for label, key in (("cycles", "cycles"), ("cycles at worst", "cycles_worst"), ("time, ms", "time_ms"),
                       ("energy, µJ", "energy_uj")):
        row(label, key)
    a, b = before["operations_per_watt"], after["operations_per_watt"]
    rows.append({"label": "operations per watt second", "unfused": short(a), "fused": short(b),
                 "saved": _times_as_many(r) or "–", "limit": short(least["operations_per_watt"])})
    row("RAM, bytes", "ram_bytes")
    row("weights, bytes", "weight_bytes")
    return rows


def _graph(r: Mapping[str, Any]) -> str:
    """All kernels, between the model's inputs and outputs."""
    boxes = {name: plots.Box(printable(name, SHORT), end=True) for name in r["ends"]["inputs"]}
    edges = []
    for k in r["kernels"]:
        name = f"kernel {k['number']}"
        how = f"{k['steps'][0]['kernel']}, " if len(k["steps"]) == 1 else ""
        note = f"{how}{short(k['cycles'])} cycles, {_percent(k['share'])}"
        boxes[name] = plots.Box(f"{k['number']}: {_brief(k)}", note, k["share"], f"#kernel-{k['number']}")
        edges += [(f"kernel {n}", name) for n in k["after"]] + [(n, name) for n in k["reads"] if n in boxes]
    for name, number in zip(r["ends"]["outputs"], r["ends"]["made_by"], strict=True):
        if f"kernel {number}" in boxes:
            boxes[f"result {name}"] = plots.Box(printable(name, SHORT), end=True)
            edges.append((f"kernel {number}", f"result {name}"))
    return plots.graph(boxes, edges, "graph of kernels")


def _inside(k: Mapping[str, Any]) -> str:
    """The steps of one kernel; empty if there is only one."""
    total = sum(s["cycles"] for s in k["steps"])
    boxes = {s["function"]: plots.Box(" > ".join(s["operators"]), f"{s['kernel']}, {short(s['cycles'])} cycles",
                                      s["cycles"] / total if total else 0.0) for s in k["steps"]}
    edges = [(t, s["function"]) for s in k["steps"] for t in s["after"] if t in boxes]
    return plots.graph(boxes, edges, f"graph of kernel {k['number']}") if len(boxes) > 1 else ""


def _brief(k: Mapping[str, Any]) -> str:
    """A kernel's name in a box."""
    chain = " > ".join(k["steps"][0]["operators"])
    return chain if len(k["steps"]) == 1 else f"{len(k['steps'])} steps, {chain} …"


def _title(k: Mapping[str, Any]) -> str:
    chains = [" > ".join(s["operators"]) for s in k["steps"]]
    return chains[0] if len(chains) == 1 else f"{len(chains)} steps: {chains[0]} … {chains[-1]}"


def _box(k: Mapping[str, Any], cores: bool) -> dict[str, Any]:
    """A kernel in the plan."""
    sources = [*k["reads"], *(f"kernel {n}" for n in k["after"])]
    sizes = k["steps"][0]["inputs"]
    return {"number": k["number"], "title": _title(k), "cycles": short(k["cycles"]), "share": _percent(k["share"]),
            "width": f"{100 * k['share']:.1f}", "from_text": f"{', '.join(sources) or 'nothing'}: {', '.join(sizes)}",
            "picture": render.markup(_inside(k)),
            "steps": [{"chain": " > ".join(s["operators"]), "function": s["function"],
                       "kernel": s["kernel"] + (f" on {', '.join(s['processors'])}" if cores else ""),
                       "shapes": f"{', '.join(s['inputs']) or 'nothing'} → {', '.join(s['outputs'])}",
                       "work": f"{s['macs']:,} multiply-accumulates, {s['cycles']:,} cycles",
                       "nodes": printable(", ".join(s["nodes"]), NAMES)}
                      for s in k["steps"]]}


def _rows(kernels: Sequence[Mapping[str, Any]]) -> list[list[dict[str, str]]]:
    """The kernels, and below each one that was joined its steps."""
    named: list[tuple[str, str, Mapping[str, Any]]] = []
    for k in kernels:
        named.append((str(k["number"]), _title(k), k))
        named += [(f"{k['number']}.{i}", f"{' > '.join(s['operators'])}, {s['kernel']}", s)
                  for i, s in enumerate(k["steps"], 1) if len(k["steps"]) > 1]
    return [_row(name, title, at, k) for at, (name, title, k) in enumerate(named)]


def _row(name: str, title: str, at: int, k: Mapping[str, Any]) -> list[dict[str, str]]:
    """A kernel or a step in the table, where it is the at-th; of the memories the one that limits it most."""
    def cell(text: str, sort: object = None, kind: str = "") -> dict[str, str]:
        return {"text": text, "sort": str(text if sort is None else sort), "kind": kind}
    level = min(k["levels"], key=lambda lv: (lv["roof"], lv["intensity"]), default=None)
    moved = sum(k["traffic"].values())
    found = [cell(name, at), cell(title, kind="text")]
    found += [cell(number(k[key]), k[key]) for key in ("macs", "instructions", "cycles", "cycles_worst")]
    found += [cell(number(k[key]), "" if k[key] is None else k[key]) for key in ("time_ms", "energy_uj")]
    found += [cell(_percent(k["share"]), k["share"]), cell(number(moved), moved)]
    if level is None:
        return [*found, cell("–", ""), cell("–", ""), cell("–", "")]
    bound = level["memory"] if level["bound"] == "memory" else "arithmetic"
    return [*found, cell(number(level["intensity"]), level["intensity"]),
            cell(bound, kind="memory" * (level["bound"] == "memory")),
            cell(f"{level['below']:.2g}", level["below"])]


def _points(r: Mapping[str, Any], memory: str) -> dict[str, list[tuple[float, float]]]:
    """The kernels under one memory's roofs, before and after fusion, and the steps of those that were joined."""
    steps = [s for k in r["kernels"] if len(k["steps"]) > 1 for s in k["steps"]]
    return {role: [(lv["intensity"], lv["reached"]) for k in found for lv in k["levels"] if lv["memory"] == memory]
            for role, found in (("unfused", r["kernels_unfused"]), ("fused", r["kernels"]), ("a step", steps))}


def _decisions(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decisions with one outcome for one reason are a row, in the order in which the first of them was taken."""
    rows: dict[tuple[Any, ...], list[str]] = {}
    for d in found:
        rows.setdefault((d["stage"], d["taken"], d["reason"]), []).append(d["subject"])
    return [{"stage": stage, "taken": taken, "why": why, "first": of[0], "rest": of[1:],
             "more": f"and {len(of) - 1} more"} for (stage, taken, why), of in rows.items()]


def _worst(wcet: Mapping[str, Any] | None) -> list[dict[str, str]]:
    if wcet is None:
        return []
    return [_tile("instructions", short(wcet["instructions"]), "exactly, on every run" if wcet["single_path"] else "at most"),
            _tile("cycles", short(wcet["cycles"]), wcet["cycles_status"].partition(":")[0]),
            _tile("stack, bytes", number(wcet["stack"]))]
