"""Runs ONNX's whole backend suite and writes tests/conformance_results.txt: one line for each case.

A line is the case's name, its kind, the operator that it tests ("-": several), and the result, with tabs between.
`make docs` counts them in docs/OPERATORS.md. A case that passed before stays on the list as passed.
"""
from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import onnx
from rich.progress import Progress

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import conformance  # noqa: E402  (found through the path above)


def main() -> None:
    """Run, print the counts, renew the file. Exit 1 if a case that passed before fails."""
    cases = conformance.cases()
    with Progress() as progress:
        task = progress.add_task("cases", total=len(cases))
        results = conformance.run(cases, lambda done: progress.update(task, completed=done))
    before = {n: line for n, line in conformance.recorded().items() if line.passed}
    lost = sorted(n for n in before if n not in results or results[n].status != "passed")
    lines = {c.name: f"{c.name}\t{c.kind}\t{operator(c)}\t{shown(results[c.name])}" for c in cases}
    lines |= {n: "\t".join((n, *before[n])) for n in lost}
    conformance.RESULTS.write_text("\n".join([f"# onnx {onnx.__version__}", *(lines[n] for n in sorted(lines))]) + "\n",
                                   encoding="utf-8")
    for reason, names in sorted(_failures(results).items(), key=lambda kv: -len(kv[1])):
        print(f"{len(names):4} {reason}: {', '.join(names[:3])}")
    print(Counter(r.status for r in results.values()))
    if lost:
        sys.exit(f"these passed before: {', '.join(lost)}")


def operator(case: conformance.Case) -> str:
    """The operator that a case tests, also in the form that ONNX expands it to; "-" for models of several."""
    tested = {c.name: c.ops for c in conformance.cases()}.get(re.sub(r"_expanded.*", "", case.name), case.ops)
    return tested[0] if len(tested) == 1 and case.kind == "node" else "-"


def shown(result: conformance.Result) -> str:
    """A result in words; why a case failed is printed, not recorded."""
    if result.status == "out of scope":
        return f"out of scope: {result.reason}"
    return result.status + (conformance.BOUND if result.bound and result.status == "passed" else "")


def _failures(results: dict[str, conformance.Result]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, r in results.items():
        if r.status == "failed":
            found[r.reason[:160]].append(name)
    return found


if __name__ == "__main__":
    main()
