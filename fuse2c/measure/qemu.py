"""Running a generated model on one of QEMU's Cortex-M boards: outputs, instructions and stack of one inference."""
from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuse2c import toolchain
from fuse2c.errors import BuildError
from fuse2c.measure import elf
from fuse2c.resources import folder as resource

QEMU = "qemu-system-arm"
RUN_TIMEOUT_S = 600.0
_FAULT_STATUS = 3       # FAULT_STATUS of startup.c

_C_TYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t", "int32": "int32_t",
            "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t", "float32": "float", "float64": "double",
            "bool": "uint8_t"}


@dataclass(frozen=True)
class Machine:
    """One of QEMU's machines: its linker script, the tick of its SysTick, in quarters of a nanosecond, and where its memories
    are, if not where the script says (`place`)."""

    script: str
    quarter_ns_per_tick: int
    regions: tuple[tuple[str, str, int], ...] = ()


MACHINES = {
    "mps2-an385": Machine("mps2.ld", 160),      # Cortex-M3, 25 MHz
    "mps2-an386": Machine("mps2.ld", 160),      # Cortex-M4
    "mps2-an500": Machine("mps2.ld", 160),      # Cortex-M7
    # Cortex-M33, 20 MHz; it boots in the Secure state: the Secure aliases of its two static RAMs
    "mps2-an505": Machine("mps2.ld", 200, (("FLASH", "0x10000000", 4 << 20), ("RAM", "0x38000000", 4 << 20))),
    "mps3-an547": Machine("mps3.ld", 125),      # Cortex-M55, 32 MHz
}


@dataclass(frozen=True)
class Board:
    """A machine of QEMU and the compiler flags for its processor, such as ("-mcpu=cortex-m3",)."""

    machine: str
    cflags: tuple[str, ...]


@dataclass(frozen=True)
class Firmware:
    """A generated model to run: its name, the folder `fuse2c build` wrote, its arguments in the order of <name>_run.

    outputs: type and number of elements of each; caller_arena: whether <name>_run takes an arena as its last
    argument, of <NAME>_ARENA_BYTES bytes; stateful: whether it has a <name>_reset, for a sequence to start with;
    steps: how many calls of <name>_step do the same, 0 if there is none; entry: what is called, `run` for <name>_run.
    """

    name: str
    folder: Path
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[tuple[np.dtype, int], ...]
    caller_arena: bool
    stateful: bool = False
    steps: int = 0
    entry: str = "run"


@dataclass(frozen=True)
class Measurement:
    """One inference: instructions executed, outputs (flat), bytes of stack used, and what <name>_run returned; `steps`:
    instructions of each call of <name>_step, if there is one.

    The count is the same on every machine and every time; its granularity is one tick of the board's timer, 40
    instructions on the MPS2 boards (50 on the M33's) and 31.25 on the MPS3 board. Instructions are not cycles.
    """

    instructions: int
    outputs: tuple[np.ndarray, ...]
    stack_used: int
    returned: int
    steps: tuple[int, ...] = ()


def run(firmware: Firmware, board: Board, opt: str = "-O3", cc: str | None = None,
        timeout_s: float = RUN_TIMEOUT_S) -> Measurement:
    """Builds the model with the measuring harness and runs it in QEMU.

    BuildError if it does not compile or link, links a heap, faults, overflows a stack of 64 KiB, writes behind its
    outputs or its arena, gives two answers for the same inputs, or takes longer than `timeout_s` seconds.
    """
    toolchain.which(QEMU, "install qemu-system-arm")
    with tempfile.TemporaryDirectory(prefix="f2c_qemu_") as work:
        program = build(firmware, board, Path(work), opt, cc)
        return parse(_emulate(command(board, program), timeout_s), firmware)


def command(board: Board, program: Path, counting: bool = True) -> list[str]:
    """How QEMU is called to run a program once, an instruction a nanosecond if they are to be counted."""
    return [toolchain.which(QEMU), "-M", board.machine, *["-icount", "shift=0"] * counting, "-display", "none", "-monitor",
            "none", "-serial", "none", "-chardev", "stdio,id=console",
            "-semihosting-config", "enable=on,target=native,chardev=console", "-kernel", str(program)]


def build(firmware: Firmware, board: Board, work: Path, opt: str = "-O3", cc: str | None = None) -> Path:
    """Compiles and links the model with the measuring harness in the folder `work`; returns the program."""
    if board.machine not in MACHINES:
        raise BuildError(f"no start-up code for QEMU's machine {board.machine}", hint=f"one of {', '.join(MACHINES)}")
    machine = MACHINES[board.machine]
    tools = toolchain.cross(board.cflags, cc)
    runtime = resource("runtime_c") / "qemu"
    objects = list(toolchain.compile_model(tools, firmware.folder, firmware.name, work, opt=opt))
    (work / "bench_case.h").write_text(case_header(firmware), encoding="utf-8")
    define = f"-DF2C_QUARTER_NS_PER_TICK={machine.quarter_ns_per_tick}"
    for source in ("startup.c", "bench_main.c"):
        objects.append(toolchain.compile_object(tools, runtime / source, work / f"harness_{source[:-2]}.o",
                                                include=[work, firmware.folder, runtime], extra=[define]))
    script = work / machine.script
    script.write_text(place((runtime / machine.script).read_text(encoding="utf-8"), machine.regions), encoding="utf-8")
    program = toolchain.link(tools, objects, work / f"{firmware.name}.elf", extra=["-nostartfiles", "-T", str(script)])
    heap = elf.heap_symbols(program)
    if heap:
        raise BuildError(f"the model {firmware.name} links a heap: {', '.join(heap)}",
                         hint="generated code must not call malloc, nor library functions that do")
    return program


def place(script: str, regions: Iterable[tuple[str, str, int]]) -> str:
    """A linker script's text with other memories: of each its name in the script, its address as text, its bytes."""
    for name, origin, size in regions:
        script = re.sub(rf"({name} +\(\w+\) *: )ORIGIN = \w+, LENGTH = \w+",
                        rf"\g<1>ORIGIN = {origin}, LENGTH = {size}", script)
    return script


def case_header(firmware: Firmware) -> str:
    """The text of bench_case.h: inputs, outputs, an arena if needed, and the call (see bench_main.c)."""
    lines = [f'#include "{firmware.name}.h"', ""]
    inputs, outputs, regions = [], [], []
    for index, array in enumerate(firmware.inputs):
        lines += _input_lines(f"f2c_bench_in{index}", array)
        inputs.append(_argument(f"f2c_bench_in{index}", array.dtype))
    for index, (dtype, count) in enumerate(firmware.outputs):
        name, size = f"f2c_bench_out{index}", np.dtype(dtype).itemsize * count
        lines.append(f"static union {{ uint8_t bytes[{size}u + F2C_BENCH_GUARD]; {_c_type(dtype)} "
                     f"values[{max(count, 1)}]; }} {name};")
        outputs.append(_argument(name, dtype))
        regions.append(f"{{{name}.bytes, {size}u}}")
    if firmware.caller_arena:
        size_macro = f"{firmware.name.upper()}_ARENA_BYTES"
        lines.append(f"static uint8_t f2c_bench_arena[{size_macro} + F2C_BENCH_GUARD] __attribute__((aligned(16)));")
        outputs.append("f2c_bench_arena")
        regions.append(f"{{f2c_bench_arena, {size_macro}}}")
    reset = f"{firmware.name}_reset({'f2c_bench_arena' if firmware.caller_arena else ''})"
    lines += [
        f"#define F2C_BENCH_RESET() {reset if firmware.stateful else '(void)0'}",
        f"#define F2C_BENCH_OUTPUTS {len(firmware.outputs)}u",
        f"#define F2C_BENCH_REGIONS {len(regions)}u",
        f"static const struct f2c_bench_region f2c_bench_regions[F2C_BENCH_REGIONS] = {{{', '.join(regions)}}};",
        f"#define F2C_BENCH_CALL() {firmware.name}_{firmware.entry}({', '.join(inputs + outputs)})", "",
    ]
    if firmware.steps:
        lines += [f"static {firmware.name}_context f2c_bench_context;", f"#define F2C_BENCH_STEPS {firmware.steps}u",
                  f"#define F2C_BENCH_INIT() {firmware.name}_init(&f2c_bench_context, {', '.join(inputs + outputs)})",
                  f"#define F2C_BENCH_STEP() {firmware.name}_step(&f2c_bench_context)", ""]
    return "\n".join(lines)


def parse(text: str, firmware: Firmware) -> Measurement:
    """Reads what the harness printed (its format is described in bench_main.c)."""
    lines = iter(text.splitlines())
    try:
        if next(lines) != "f2c-bench 1":
            raise ValueError("the first line is not the harness's")
        returned, instructions, stack, repeat, guard = (
            _field(lines, key) for key in ("returned", "instructions", "stack", "repeat", "guard"))
        steps = tuple(_field(lines, "step") for _ in range(firmware.steps))
        outputs = tuple(_read_output(lines, index, np.dtype(dtype), count)
                        for index, (dtype, count) in enumerate(firmware.outputs))
        if next(lines) != "end":
            raise ValueError("more output than expected")
    except (ValueError, StopIteration) as error:
        reason = str(error) or "it ends early"
        raise BuildError(f"the harness printed something else than a measurement: {reason}", stderr=text) from error
    if not guard:
        raise BuildError(f"{firmware.name}_run wrote behind an output or its arena, or overflowed the stack")
    if not repeat:
        raise BuildError(f"{firmware.name}_run {'or _step ' * bool(firmware.steps)}gave two answers for the same inputs",
                         hint="it reads memory that it never wrote, or leaves a part of an output unwritten")
    signed = returned - (1 << 32) if returned >= 1 << 31 else returned
    return Measurement(instructions=instructions, outputs=outputs, stack_used=stack, returned=signed, steps=steps)


def _emulate(command: list[str], timeout_s: float) -> str:
    """Standard output of QEMU; BuildError if the firmware faulted or QEMU gave up."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s,
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"no end of the run in QEMU after {timeout_s:g} s", command=shown) from error
    said = done.stdout + done.stderr
    if "\nfault stack overflow" in said:
        raise BuildError("the firmware overflowed its stack of 64 KiB in QEMU", command=shown, stderr=said)
    if done.returncode == _FAULT_STATUS:
        raise BuildError("the firmware faulted in QEMU", command=shown, stderr=said,
                         hint="arm-none-eabi-addr2line tells where in the program the pc is")
    if done.returncode != 0:
        raise BuildError(f"QEMU ended with status {done.returncode}", command=shown, stderr=said)
    return done.stdout


def _field(lines: Iterator[str], key: str) -> int:
    word, _, value = next(lines).partition(" ")
    if word != key:
        raise ValueError(f"`{word}` where `{key}` belongs")
    return int(value, 16)


def _read_output(lines: Iterator[str], index: int, dtype: np.dtype, count: int) -> np.ndarray:
    size = dtype.itemsize * count
    if next(lines) != f"output {index:02x} {size:08x}":
        raise ValueError(f"no output {index} of {size} bytes")
    data = b""
    while len(data) < size:
        data += bytes.fromhex(next(lines))
    if len(data) != size:
        raise ValueError(f"output {index} has {len(data)} bytes, not {size}")
    return np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype)


def _input_lines(name: str, array: np.ndarray) -> list[str]:
    """A constant array with a tensor's exact bytes; the union gives it the alignment of its type, and no more."""
    data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes() or b"\0"
    rows = [data[at:at + 32] for at in range(0, len(data), 32)]
    return [f"static const union {{ uint8_t bytes[{len(data)}]; {_c_type(array.dtype)} "
            f"values[{max(array.size, 1)}]; }} {name} = {{{{",
            *("    " + "".join(f"{byte}," for byte in row) for row in rows), "}};"]


def _argument(name: str, dtype: np.dtype) -> str:
    # A header may spell the type of a bool tensor bool or uint8_t; through void the buffer fits both.
    return f"(void *){name}.bytes" if np.dtype(dtype).name == "bool" else f"{name}.values"


def _c_type(dtype: np.dtype) -> str:
    name = np.dtype(dtype).name
    if name not in _C_TYPES:
        raise BuildError(f"no C type for tensors of {name}")
    return _C_TYPES[name]
