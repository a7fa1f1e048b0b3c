"""Writes what can be read off the code: docs/OPERATORS.md, docs/FUSION.md, and the README's measured parts.

    python scripts/make_docs.py [--readme] [--models FOLDER] [--tests]

--readme runs the commands whose output the README shows, and pastes it; --tests does so with `make test`, which takes
minutes. --models measures the README's table, if the folder holds the models that the table names.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from fuse2c import catalogue, report
from fuse2c.fusion import catalog, examples, quantise, rules
from fuse2c.fusion.dsl import Fold, Fuse, Pat
from fuse2c.ops import all_ops

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import conformance  # noqa: E402  (found through the path above)

Cases = dict[str, conformance.Recorded]
OUT_OF_SCOPE = "out of scope: "
HEAD = "<!-- Written by scripts/make_docs.py (`make docs`): do not edit. -->\n"
COLUMNS = ("model", "kernels", "intermediates", "arena", "weights", "code", "stack", "instructions, M",
           "`--optimize ram`: arena", "instructions, M")
# One command in an sh block, and right behind it a text block: what the command prints.
SHOWN = re.compile(r"^```sh\n(?P<command>[^\n]+)\n```\n\n```text\n(?P<output>.*?)```$", re.M | re.S)
FEW = 8         # operators that a pattern lists one by one
MAKE = {"make demo": ["examples/digits/demo.py"], "make test": ["-m", "pytest", "-n", "auto"]}
WIDE, NARROW = 200, 80      # columns: no table of fuse2c needs the first, the demo fits into the second


def operators_page() -> str:
    """docs/OPERATORS.md."""
    rows, cases = catalogue.operators(), conformance.recorded()
    text = f"""\
    {HEAD}
    # Operators

    {len(rows)} operators of ONNX and of onnxruntime's own domain (`com.microsoft`) can be compiled, by {len(all_ops())}
    operators of the compiler. A model with any other is refused; one error lists them all. `fuse2c list ops` prints
    this list, and `fuse2c plan MODEL --why` says which kernel serves a node, and which operators of a quantised model
    became integer operators.

    *floats*: float16, bfloat16, float32, float64. *integers*: int8 to int64, uint8 to uint64. *2 and 4 bits*: int2, uint2,
    int4, uint4. *quantised*: between DequantizeLinear and QuantizeLinear it computes in integers. *takes epilogues*:
    elementwise operators behind it run in its kernel. *is an epilogue*: it runs in the kernel before it. *as its parts*:
    it becomes other operators, which fuse as they do. *cases*: how many of the node cases of ONNX's own test suite for
    this operator pass, of those in scope; the same operator in the form that ONNX expands it to counts, too.

    | operator | opsets | element types | fused with | not supported, remarks | cases |
    |---|---|---|---|---|---|
    """
    lines = [f"| {r.name} | {r.opsets} | {r.types} | {r.fusion} | {_cell(r.remark)} | {_passed(cases, r.name)} |"
             for r in rows]
    return "\n".join([inspect.cleandoc(text), *lines, "", *_suite(cases)]) + "\n"


def _passed(cases: Cases, operator: str) -> str:
    """passed/of, or nothing where the suite has no case of an operator."""
    found = [c.passed for c in cases.values() if c.operator == operator and not c.result.startswith(OUT_OF_SCOPE)]
    return f"{sum(found)}/{len(found)}" if found else ""


def _suite(cases: Cases) -> list[str]:
    """The section on ONNX's backend test suite."""
    bound = sum(c.passed and c.result.endswith(conformance.BOUND) for c in cases.values())
    text = f"""\
    ## ONNX's backend test suite

    {len(cases):,} cases of onnx {conformance.recorded_with()}, compiled to C, run on the host and compared with what the suite
    expects; `python scripts/conformance.py` runs them all, and `make test` fails if one that has passed no longer does. In
    {bound} of the passed cases parameters that the suite feeds as inputs (shapes, axes, bounds) were made constants, as
    `--bind` does.

    | kind | passed | failed | out of scope | all |
    |---|---:|---:|---:|---:|
    """
    lines = [inspect.cleandoc(text)]
    for kind in ("node", *conformance.KINDS):
        of_kind = [c for c in cases.values() if c.kind == kind]
        counts = [sum(c.passed for c in of_kind), sum(c.result == "failed" for c in of_kind),
                  sum(c.result.startswith(OUT_OF_SCOPE) for c in of_kind), len(of_kind)]
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    reasons = Counter(c.result.removeprefix(OUT_OF_SCOPE) for c in cases.values() if c.result.startswith(OUT_OF_SCOPE))
    lines += ["", "| out of scope | cases |", "|---|---:|", *(f"| {r} | {n} |" for r, n in sorted(reasons.items()))]
    failed = sorted(name.removeprefix("test_") for name, c in cases.items() if c.result == "failed")
    return [*lines, "", f"Not passed: {', '.join(f'`{name}`' for name in failed)}."]


def fusion_page() -> str:
    """docs/FUSION.md: every rule with its algebra, which is its function's own docstring."""
    listed, found = report.all_rules(), all_rules()
    text = f"""\
    {HEAD}
    # Fusion rules

    {len(listed)} rules. `fuse2c plan MODEL --why` says where each was taken (`+`), where it was refused (`-`), and why.

    ## Folds

    A fold replaces nodes by fewer or cheaper ones, with constants that are computed now. In order of preference:

    | fold | pattern | what becomes of it | what it gains |
    |---|---|---|---|
    """
    lines = [inspect.cleandoc(text)]
    for kind, name, pays in listed:
        rule = found.get((kind, name))
        if isinstance(rule, Fold):
            lines.append(f"| {name} | {_cell(_pattern(rule.match))} | {_cell(_doc(rule.rewrite))} | {_cell(pays)} |")
    algebra = inspect.cleandoc(quantise.__doc__ or "")
    text = f"""
    Integer arithmetic comes from these, where Q is QuantizeLinear and DQ is DequantizeLinear:

    ```text
    {algebra.replace(chr(10), chr(10) + "    ")}
    ```

    ## Fusions

    A fusion turns a group of nodes into one, which keeps the nodes that it replaced: its meaning is these nodes, run in
    order by the numpy reference. A group starts at one operator and grows over its neighbours while they may join; the
    largest group that is one kernel is taken. No path may leave a group and come back.
    """
    lines += ["", inspect.cleandoc(text), ""]
    for kind, name, pays in listed:
        rule = found.get((kind, name))
        if isinstance(rule, Fuse):
            lines += _fusion(rule, name, pays)
    lines += _planned()
    lines += ["## Examples\n",
              "One graph on which each fold fires; `W` is a constant tensor, `I` a list of integers, `Q` and `DQ` quantise.\n",
              "| fold | example |", "|---|---|"]
    lines += [f"| {name} | `{examples.GRAPHS[name]}` |" for kind, name, _ in listed if kind == "fold"]
    return "\n".join(lines).rstrip() + "\n"


def _planned() -> list[str]:
    """What is fused when the kernels, or the schedule, are known."""
    text = """
    ### in-place

    The kernels behind a Concat are given its result's strides and write into parts of it, the readers of a Slice those of
    its operand: nothing is copied. In loop nests it is always so.

    """
    lines = [inspect.cleandoc(text), "", *_example("in-place")]
    text = """
    ### join

    Steps become one kernel after the schedule is known: those whose rows take turns, and neighbours that hand on at most
    512 bytes. Their C functions are inlined into that of the kernel.

    """
    return [*lines, inspect.cleandoc(text), "", *_example("join")]


def all_rules() -> dict[tuple[str, str], Fold | Fuse]:
    """(kind, name) -> rule; the same rules as `fuse2c list rules`."""
    found: dict[tuple[str, str], Fold | Fuse] = {
        ("fold", f.name): f for f in catalog.folds()}
    return found | {("fuse", f.name): f for f in rules.rules()}


def _fusion(rule: Fuse, name: str, pays: str) -> list[str]:
    """One fusion: pattern, conditions, gain."""
    start = ", ".join(sorted(rule.seeds)) if len(rule.seeds) <= FEW else f"any of {len(rule.seeds)} operators"
    return [f"### {name}\n", f"{pays[0].upper()}{pays[1:]}.\n", f"- starts at: {start}",
            f"- grows to: readers{', producers, and other readers of its operands' if rule.upwards else ''}",
            f"- joins: {_doc(rule.joins)}", *(f"- only if: {_doc(check)}" for check in rule.where), "", *_example(name)]


def _example(name: str) -> list[str]:
    """The graph on which a rule fires."""
    return ["```text", examples.GRAPHS[name], "```", ""]


def _pattern(pattern: Pat) -> str:
    """A > B: A feeds B. Sets of many operators go by the pattern's name."""
    own = "/".join(sorted(pattern.ops)) if len(pattern.ops) <= FEW else f"any {pattern.name}"
    feeds = " and ".join(_pattern(each) for each in pattern.inputs)
    return f"{feeds} > {own}" if feeds else own


def _doc(function: object) -> str:
    """A docstring on one line."""
    text = inspect.getdoc(function)
    if not text:
        raise SystemExit(f"{function} has no docstring to quote")
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages() -> dict[str, str]:
    """File, relative to the checkout -> content."""
    return {"docs/OPERATORS.md": operators_page(), "docs/FUSION.md": fusion_page()}


def readme(text: str, models: Path | None, tests: bool = False) -> str:
    """The README with its measured parts up to date."""
    def shown(m: re.Match[str]) -> str:
        command, output = m["command"], m["output"]
        return _shown(command, run(command) if tests or command != "make test" else output)
    text = SHOWN.sub(shown, text)
    text = _block(text, "counts", counts())
    if models is not None:
        names = re.findall(r"^\| `(\w+)` \|", text, re.M)
        rows = [(_bench(file, "cortex-m4"), _bench(file, "cortex-m4", "--optimize ram"))
                for file in (models / f"{name}.onnx" for name in dict.fromkeys(names))]
        text = _block(text, "figures", _figures(rows))
        helium = _bench(models / "kws_int8.onnx", "cortex-m55")["instructions"]
        text = re.sub(r"<!-- m55 -->.*?<!-- /m55 -->", f"<!-- m55 -->{helium / 1e6:.2f}<!-- /m55 -->", text)
    return text


def counts() -> str:
    """How much is supported, in one sentence of the README."""
    return (f"{len(catalogue.operators())} ONNX operators ([docs/OPERATORS.md](docs/OPERATORS.md)) and "
            f"{len(report.all_rules())} fusion rules ([docs/FUSION.md](docs/FUSION.md)); both pages are written from "
            "the code.")


def run(command: str, cwd: Path = ROOT) -> str:
    """What a command of the README prints, paths relative to `cwd`; SystemExit if it fails."""
    words = MAKE.get(command) or ["-m", *shlex.split(command)]
    env = os.environ | {"COLUMNS": str(NARROW if command in MAKE else WIDE), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8",
                          check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    lines = [line.rstrip() for line in done.stdout.replace(f"{cwd.resolve()}{os.sep}", "").strip("\n").splitlines()]
    return "\n".join(lines[-1:] if command == "make test" else lines) + "\n"


def _shown(command: str, output: str) -> str:
    return f"```sh\n{command}\n```\n\n```text\n{output}```"


def _block(text: str, name: str, content: str) -> str:
    """Replace what stands between <!-- name --> and <!-- /name -->."""
    return re.sub(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.S)


def _bench(model: Path, target: str, options: str = "") -> dict[str, Any]:
    """The object that `bench --json` prints."""
    print(f"measuring {model.name} on {target} {options}".rstrip(), flush=True)
    return dict(json.loads(run(f"fuse2c bench {shlex.quote(str(model.resolve()))} -t {target} --json {options}")))


def _figures(rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The README's table; every figure is a key of `bench --json`, as it is and with --optimize ram."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" + "|--:" * (len(COLUMNS) - 1) + "|"]
    for r, small in rows:
        flash, ram = r["flash_bytes"], r["ram_bytes"]
        cells = [f"{r['launches_unfused']:,} → {r['launches']:,}",
                 f"{r['intermediate_bytes_unfused']:,} → {r['intermediate_bytes']:,}", f"{ram['arena']:,}",
                 f"{flash['weights']:,}", f"{flash['code']:,}", f"{ram['stack']:,}", f"{r['instructions'] / 1e6:.2f}",
                 f"{small['ram_bytes']['arena']:,}", f"{small['instructions'] / 1e6:.2f}"]
        lines.append(f"| `{str(r['model']).removesuffix('.onnx')}` | {' | '.join(cells)} |")
    machine = subprocess.run(["qemu-system-arm", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version ([\d.]+)", machine)
    return "\n".join([*lines, "", f"Measured with {rows[0][0]['compiler']}, `{rows[0][0]['flags']}`, "
                                  f"QEMU {version[1] if version else '?'}."])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the documents that are read off the code.")
    parser.add_argument("--readme", action="store_true", help="also paste what the README's commands print")
    parser.add_argument("--tests", action="store_true", help="also run all tests, for their last line")
    parser.add_argument("--models", type=Path, help="folder of the models in the README's table")
    args = parser.parse_args()
    written = pages()
    if args.readme:
        path = ROOT / "README.md"
        models = args.models if args.models and args.models.is_dir() else None
        if args.models and models is None:
            print(f"no folder {args.models}: the README's table stays as it is")
        written["README.md"] = readme(path.read_text(encoding="utf-8"), models, args.tests)
    for name, text in written.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
