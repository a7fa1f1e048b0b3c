"""The shape of the source: imports point downwards, files and functions stay short, libraries keep to their corner."""

import ast
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fuse2c"

FLOORS = [
    {"errors", "names", "progress", "quant", "resources"},
    {"ir", "options", "quant"},
    {"op"},
    {"kernels"},
    {"ops", "target", "toolchain"},
    {"plan", "frontend", "fusion", "price", "pressure", "calibrate"},
    {"passes"},
    {"pipeline", "codegen", "measure", "wcet"},
    {"check", "fission"},
    {"bench", "catalogue", "drawing", "flash", "memory", "plots"},
    {"report", "firmware", "study", "explain"},
    {"page", "explore"},
    {"__init__", "commands", "cli", "__main__"},
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
# Neighbours on one floor that may be imported all the same.
PEERS = {"frontend": {"plan"}, "price": {"plan", "pressure"}, "pressure": {"plan"}, "fusion": {"plan"},
         "commands": {"__init__"}, "cli": {"__init__", "commands"},
         "__main__": {"__init__", "cli"}}

# The only files under fuse2c/ that may import a library.
OWNERS = {
    "onnx": ["frontend/*", "ops/_onnx.py"],
    "jinja2": ["codegen/render.py"],
    "cffi": ["check*", "jit*"],
    "capstone": ["wcet/decode.py"],
    "elftools": ["wcet/image.py"],
    "networkx": ["wcet/*", "plots.py"],
    "matplotlib": ["plots.py"],
    "distributed": ["explore.py"],
    "highspy": ["wcet/ipet.py", "passes/_exact.py"],
}

MAX_FILE, MAX_FUNCTION = 400, 60
MACHINE_PATH = re.compile(r"(?<![\w.~)}>/-])/(?:home|root|tmp|work|Users)/\w")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def unit(path: Path) -> str:
    """The module or folder at the top of fuse2c/ that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that a file of `package` imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: -node.level + 1 or None] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imports_of(path: Path) -> list[str]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return list(imported(ast.parse(path.read_text(encoding="utf-8")), package))


def unit_of(name: str) -> str | None:
    """The unit that a dotted name reaches; None outside fuse2c. `from fuse2c import __version__` reaches __init__."""
    top, _, rest = name.partition(".")
    if top != "fuse2c":
        return None
    head = rest.split(".")[0]
    return head if (PACKAGE / head).is_dir() or (PACKAGE / f"{head}.py").is_file() else "__init__"


def allowed(me: str, other: str) -> bool:
    return other == me or FLOOR[other] < FLOOR[me] or other in PEERS.get(me, ())


def test_every_module_has_a_floor() -> None:
    assert sorted({unit(path) for path in modules()} - FLOOR.keys()) == []


def test_imports_point_downwards() -> None:
    bad = set()
    for path in modules():
        for name in imports_of(path):
            other = unit_of(name)
            if other in FLOOR and unit(path) in FLOOR and not allowed(unit(path), other):
                bad.add(f"{path.relative_to(ROOT)} imports {other}")
    assert sorted(bad) == []


def test_the_floors_bite() -> None:
    source = "import fuse2c.cli\nfrom ..target import load\ndef f():\n    from fuse2c import quant\n"
    names = list(imported(ast.parse(source), "fuse2c.ops"))
    assert names == ["fuse2c.cli", "fuse2c.target.load", "fuse2c.quant"]
    assert not allowed("ops", "target") and not allowed("ops", "cli") and not allowed("plan", "fusion")
    assert allowed("ops", "quant") and allowed("ops", "ops") and allowed("fusion", "plan")


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_keep_to_their_corner(library: str) -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if any(name.split(".")[0] == library for name in imports_of(path))
    }
    strays = [user for user in users if not any(fnmatch(user, pattern) for pattern in OWNERS[library])]
    assert sorted(strays) == []


def python_files() -> list[Path]:
    folders = ("fuse2c", "tests", "examples", "scripts", "bench")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_files_are_short() -> None:
    c = [path for folder in ("runtime_c", "templates") for path in sorted((ROOT / folder).rglob("*.*"))]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files() + c}
    assert [f"{path.relative_to(ROOT)}: {n} lines" for path, n in lengths.items() if n >= MAX_FILE] == []


def test_functions_are_short() -> None:
    long = []
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= MAX_FUNCTION:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    assert long == []


def project_files() -> list[Path]:
    """What git tracks or is about to track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the files: {error}")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_machine_paths() -> None:
    bad = []
    for path in project_files():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if MACHINE_PATH.search(line):
                bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert bad == []


def test_the_path_lint_bites() -> None:
    for folder in ("home", "work", "tmp"):
        assert MACHINE_PATH.search(f"include = '/{folder}/me/x.h'")
        assert not MACHINE_PATH.search(f"build/{folder}/me https://example.org/{folder}/me <b>{folder}</{folder}>")
