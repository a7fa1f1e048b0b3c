"""The documents are true: generated pages are up to date, commands print what is shown, links lead somewhere."""

import importlib.util
import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import click
import pytest

from fuse2c import pipeline, toolchain
from fuse2c.cli import cli
from fuse2c.measure import qemu

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def load(path: str) -> ModuleType:
    """A Python file that is no module of the package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_docs = load("scripts/make_docs.py")
BLOCKS = [(m["kind"], m["body"]) for m in re.finditer(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", README, re.M | re.S)]
COMMANDS = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines()]
RUNNABLE = [command for command in COMMANDS if command.startswith("fuse2c ")]
SHOWN = {m["command"]: m["output"] for m in make_docs.SHOWN.finditer(README)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which the README's commands find the digits example."""
    (tmp_path / "examples").mkdir()
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    return tmp_path


def shape(text: str) -> str:
    """What a command prints, but for figures and the widths of columns, which compilers and versions change."""
    return re.sub(r"[\s─━┳╇┴┏┓┡┩└┘]+", " ", re.sub(r"\d[\d,.e+-]*", "N", text)).strip()


@pytest.mark.parametrize("name", make_docs.pages())
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == make_docs.pages()[name], f"{name}: run `make docs`"


def test_counts_are_up_to_date() -> None:
    assert make_docs.counts() in README, "run `make docs`"


def test_the_readme_has_commands_to_run() -> None:
    assert {shlex.split(command)[1] for command in RUNNABLE} == {"check", "build", "bench", "plan"}
    assert {"make demo", "make test", *RUNNABLE} <= SHOWN.keys()
    assert all(output.strip() for output in SHOWN.values())


@pytest.mark.parametrize("command", RUNNABLE)
def test_commands_print_what_is_shown(command: str, folder: Path) -> None:
    if " bench " in command:
        for tool in (toolchain.ARM_GCC, qemu.QEMU):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
    if " check " in command:
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    assert shape(make_docs.run(command, folder)) == shape(SHOWN[command]), "run `make docs`"


def test_a_change_of_words_is_noticed() -> None:
    table = SHOWN[next(c for c in RUNNABLE if " bench " in c)]
    assert shape(table) == shape(table.replace("0", "12,345").replace("━━", "━"))
    assert shape(table) != shape(table.replace("stack", "heap"))


def test_the_demo_prints_what_is_shown() -> None:
    """Its headings and rows; tests/test_demo.py runs it."""
    source = (ROOT / "examples" / "digits" / "demo.py").read_text(encoding="utf-8")
    names = re.findall(r'^        \("([^"]+)", ', source, re.M)
    assert len(names) == 11 and [name for name in names if f" {name} " not in SHOWN["make demo"]] == []


def test_the_call_site_compiles(folder: Path) -> None:
    """The C of the README against the header that the command above it writes."""
    cc = next((name for name in ("gcc", "clang", "cc") if shutil.which(name)), None)
    if cc is None:
        pytest.skip("no C compiler is installed")
    command = next(c for c in RUNNABLE if " build " in c)
    make_docs.run(command, folder)
    source, by_rows, by_cores = (body for kind, body in BLOCKS if kind == "c")
    model = shlex.split(command)[-1]
    make_docs.run(f"{command}_rows --input-rows", folder)
    make_docs.run(f"{command}_cores -t host --cores 2", folder)
    main = "int classify(void);\nint main(void)\n{\n    return classify() > 9;\n}\n"
    rows = ("int camera_line(const signed char *);\nint main(void)\n{\n    static const signed char line[64];\n"
            "    int lines = 1;\n    while (camera_line(line)) {\n        ++lines;\n    }\n    return lines != 8;\n}\n")
    cores = ("#include <pthread.h>\n#include <stddef.h>\nvoid second_core(void);\nint first_core(void);\n"
             "static void *second(void *none)\n{\n    second_core();\n    return none;\n}\n"
             "int main(void)\n{\n    pthread_t thread;\n"
             "    return pthread_create(&thread, NULL, second, NULL) || first_core() || first_core();\n}\n")
    for where, site, program in ((model, source, main), (f"{model}_rows", by_rows, rows), (f"{model}_cores", by_cores, cores)):
        (folder / "site.c").write_text(site, encoding="utf-8")
        (folder / "main.c").write_text(program, encoding="utf-8")
        files = ["main.c", "site.c", f"{where}/digits_int8.c", f"{where}/digits_int8_weights.c"]
        done = subprocess.run([cc, *toolchain.WARNINGS, "-pthread", f"-I{where}", *files, "-o", "firmware"],
                              cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert subprocess.run([folder / "firmware"], check=False).returncode == 0


@pytest.mark.parametrize("model", ["digits_fp32", "digits_int8"])
def test_clang_gives_the_same(model: str) -> None:
    """The README names two families of compilers; `check` builds with gcc, where there is one."""
    clang = next((name for name in ("clang", "clang-14") if shutil.which(name)), None)
    if clang is None:
        pytest.skip("clang is not installed")
    output = make_docs.run(f"fuse2c check examples/digits/{model}.onnx --samples 2 --cc {clang}")
    assert "numpy, kernel by kernel" in output


def test_the_folder_holds_what_is_listed(folder: Path) -> None:
    command = next(c for c in RUNNABLE if " build " in c)
    make_docs.run(command, folder)
    model = folder / shlex.split(command)[-1]
    (table,) = re.findall(r"The folder holds:\n\n(.*?)\n\n", README, re.S)
    patterns = [word for row in table.splitlines()[2:] for word in re.findall(r"`([^`]+)`", row.split("|")[1])]
    found = {pattern: {path.name for path in model.glob(pattern)} for pattern in patterns}
    assert [pattern for pattern in patterns if not found[pattern]] == []
    assert {path.name for path in model.iterdir() if path.name[0] != "."} - set().union(*found.values()) == set()


def test_python_blocks_compile() -> None:
    blocks = [body for kind, body in BLOCKS if kind == "python"]
    assert len(blocks) == 3
    for body in blocks:
        compile(body, "README.md", "exec")


def test_the_api_example_runs(folder: Path, monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    shutil.copy(folder / "examples" / "digits" / "digits_int8.onnx", folder / "kws_int8.onnx")
    (body,) = (body for kind, body in BLOCKS if kind == "python" and "fuse2c" in body)
    exec(compile(body, "README.md", "exec"), {})
    assert "kernels" in capsys.readouterr().out and (folder / "out" / "kws" / "kws_int8.h").is_file()


def all_commands() -> dict[str, click.Command]:
    """Every command by its full name, those of groups too."""
    found = dict(cli.commands)
    for name, group in cli.commands.items():
        if isinstance(group, click.Group):
            found |= {f"{name} {inner}": command for inner, command in group.commands.items()}
    return found


def test_every_command_and_option_is_in_the_readme() -> None:
    words = set(re.findall(r"`([^`\n]+)`", README))
    spelt = {piece.split()[0] for word in words for piece in word.split(", ")}
    missing = []
    for name, command in all_commands().items():
        assert f"fuse2c {name}" in README, name
        for option in (p for p in command.params if isinstance(p, click.Option)):
            missing += [f"{name} {flag}" for flag in option.opts if flag not in spelt]
    assert missing == []


def test_every_option_of_the_readme_exists() -> None:
    flags = {flag for command in all_commands().values() for p in command.params for flag in p.opts}
    rows = re.findall(r"^\| (`-.*?) \|", README, re.M)
    listed = {piece.split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row) for piece in word.split(", ")}
    assert len(rows) > 10 and sorted(listed - flags) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"https?:", path):
            continue
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), f"{name}: {target}"
        headings = [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
                    for h in re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)] if file.is_file() else []
        assert not anchor or anchor in headings, f"{name}: {target}"


def test_paths_in_the_documents_exist() -> None:
    """`fuse2c/...`, `templates/...` and the like, in backquotes."""
    missing = []
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:fuse2c|templates|runtime_c|tests|scripts|examples|docs)/[\w/.-]*)`", text):
            if not (ROOT / path).exists():
                missing.append(f"{name}: {path}")
    assert missing == []


def test_the_row_of_an_operator_is_quoted_as_it_is() -> None:
    (quoted,) = re.findall(r'`("\w+": Row\([^`]+)`', README)
    assert quoted in (ROOT / "fuse2c" / "kernels" / "scalars.py").read_text(encoding="utf-8")


def test_architecture_names_every_floor_and_pass() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d \|(.+?)\|", text, re.M)
    place = {word.rstrip("/"): i for i, row in enumerate(rows) for word in re.findall(r"`([\w/]+)`", row)}
    floors = load("tests/test_layers.py").FLOORS
    assert place.keys() == set().union(*floors)
    heights = [sorted(place[name] for name in floor) for floor in floors]
    assert heights and all(low[-1] <= high[0] for low, high in itertools.pairwise(heights)), "a floor is out of order"
    passes = text.split("| pass | after it |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", passes, re.M) == [stage.name for stage in pipeline.PIPELINE]
