"""Writing target files: a new one to fill in, and prices from a fit or from cycles that were measured on a board."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from fuse2c.errors import TargetError
from fuse2c.target import HELD, Price, Target, load

COLUMNS = ("function", "kernel", "instructions", "waits", "cycles")
MARK = "# Prices of kernels follow; a command wrote them, and writes them anew."


def with_prices(text: str, prices: Mapping[str, Price], note: str) -> str:
    """The text of a target file with these prices at its end, and `note` as their source."""
    lines = [line for line in text.split(f"\n{MARK}\n")[0].rstrip().split("\n") if not line.startswith(("price =", "price  "))]
    if "[sources]" not in lines:
        lines += ["", "[sources]"]
    at = lines.index("[sources]") + 1
    lines.insert(at, f'price = "{note}"')
    for kernel, p in sorted(prices.items()):
        values = ((f.name, getattr(p, f.name)) for f in fields(p))
        table = [f"{key} = {value:g}" if isinstance(value, int) else f"{key} = {value!r}" for key, value in values
                 if value not in (0.0, Price.__dataclass_fields__[key].default)]
        lines += (["", MARK] if kernel == min(prices) else []) + ["", f"[price.{kernel}]", *table]
    return "\n".join(lines) + "\n"


def calibrated(target: Target, text: str, where: str) -> dict[str, Price]:
    """The target's prices with the cycles an instruction that a board measured, by kernel.

    text: the CSV that the firmware of `bench --firmware` printed (columns COLUMNS; other lines of a debugger's output are
    passed over). A kernel that the target has no price for gets the processor's rough one. Raises TargetError.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() == ",".join(COLUMNS)), None)
    if start is None:
        raise TargetError(f"{where} has no line {','.join(COLUMNS)!r}",
                          hint="save what the firmware of `bench --firmware` prints")
    sums: dict[str, list[float]] = {}
    for number, line in enumerate(lines[start + 1:], start + 2):
        cells = line.strip().split(",")
        if len(cells) != len(COLUMNS):
            continue
        try:
            instructions, waits, cycles = (float(c) for c in cells[2:])
        except ValueError:
            raise TargetError(f"{where}, line {number}: {line.strip()!r} is no measurement") from None
        found = sums.setdefault(cells[1], [0.0, 0.0])
        found[0] += instructions
        found[1] += cycles - waits
    p, prices = target.processor, dict(target.price)
    for kernel, (instructions, cycles) in sums.items():
        if instructions <= 0 or cycles <= 0:
            raise TargetError(f"{where}: {kernel} took no time", hint="does the core's counter run? is this the whole output?")
        rough = prices.get(kernel, Price(mac=p.mac, alu=p.alu, call=p.launch))
        cpi = round(cycles / instructions, 4)
        prices[kernel] = replace(rough, cpi=cpi, cpi_worst=max(rough.cpi_worst, p.cpi_worst, cpi))
    if not sums:
        raise TargetError(f"{where} has no measurements", hint="is this the whole output?")
    return prices


def new_target(name: str, like: str) -> str:
    """The text of a target file to fill in, for a board with the core of the target `like`. Raises TargetError."""
    core = load(like)
    ram, flash = (core.holding(what) for what in ("arena", "weights"))
    return f'''# A target of your own: `fuse2c target check` says what is missing. docs/TARGETS.md explains every key.
name   = "{name}"
title  = "{name} ({core.title})"
source = "which data sheet"
status = "estimated"            # estimated, vendor or measured: of all figures that [sources] does not name
like   = "{like}"               # core, compiler flags, prices and emulator

[processor]
clock_hz = {core.processor.clock_hz or 1}

[[clock]]                       # one for each rate that you would use, the slowest first
hz          = {core.processor.clock_hz or 1}
active_uw   = 0                 # power while computing, in microwatts; 0: unknown
wait_states = 0                 # of the flash memory at this clock

[memory.ram]
bytes       = {ram[1].bytes}
holds       = ["arena"]
origin      = "0x20000000"      # for `bench --firmware`
gb_per_s    = 0                 # 0: unknown
pj_per_byte = 0                 # 0: in active_uw

[memory.flash]
bytes       = {flash[1].bytes}
holds       = ["weights"]
origin      = "0x08000000"
gb_per_s    = 0
pj_per_byte = 0

[power]
sleep_uw = 0                    # between inferences, RAM kept
wake_us  = 0

[sources]                       # of single figures or tables: how they are known, and from where
"processor.clock_hz" = "vendor: data sheet, table"
'''


def gaps(target: Target) -> list[str]:
    """What reports will not say for want of figures."""
    p, clocks = target.processor, target.clock
    found = [(not p.clock_hz, "processor.clock_hz: no time, energy or power"),
             (not any(c.active_uw for c in clocks), "clock.*.active_uw: no energy or power"),
             (not target.power.sleep_uw, "power.sleep_uw: sleep is taken to cost nothing"),
             (not target.price, "price.*: instructions are rough"),
             (not all(m.gb_per_s for m in target.memory.values() if m.holds), "memory.*.gb_per_s: no roofline"),
             (not all(target.holding(w)[1].origin for w in HELD), "memory.*.origin: no firmware for the board")]
    return [text for missing, text in found if missing]
