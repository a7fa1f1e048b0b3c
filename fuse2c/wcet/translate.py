"""Instructions of the core to parts of Python source, which can be left out where nothing depends on them."""
from __future__ import annotations

from fuse2c.errors import Refused
from fuse2c.wcet import floating, system, transfers, vectors
from fuse2c.wcet.decode import COMPARES, LOST, Instruction, word
from fuse2c.wcet.operands import LR, PC, Imm, Mem, Reg
from fuse2c.wcet.parts import FLAGS, Operand2, Part, flagged, imm, known, logic_flags, part, reg
from fuse2c.wcet.values import WINDOWS, M


def translate(i: Instruction, valued: bool) -> list[Part]:
    """The parts of an instruction, its condition not looked at. `valued`: what it stores is to be followed."""
    name = i.name
    if name in (LOST, "nop", "it", "dmb", "dsb", "isb", "b", "cbz", "cbnz", "le", "letp"):
        return []
    if name in ("bl", "blx", "bx"):
        goes = [] if name == "bl" else [part(f"R[15] = R[{reg(i, 0)}]", [reg(i, 0)], [PC], stays=True)]
        return goes if name == "bx" else [*goes, part(f"R[14] = {i.end | 1}", [], [LR])]
    if name in ("tbb", "tbh"):
        return [_table(i)]
    if name in ("dls", "wls"):
        return [part(f"R[14] = R[{reg(i, 1)}]", [reg(i, 1)], [LR])]
    if name in ("dlstp", "wlstp"):
        return [vectors.tail_loop(imm(i, 2), reg(i, 1))]
    if i.kind == "mve":
        return vectors.translate(i)
    if name[0] == "v":
        return floating.translate(i)
    parts = transfers.translate(i, valued)
    for family in (system.translate, _moves, _arithmetic, _shifts, _multiplies, _fields, _selects):
        if parts is None:
            parts = family(i)
    return _opaque(i) if parts is None else parts


def _table(i: Instruction) -> Part:
    """TBB and TBH: the target is twice an entry of the table ahead."""
    table = i.ops[0]
    if not isinstance(table, Mem) or table.index is None:
        raise Refused(f"{i}: a table is expected")
    width = 1 if i.name == "tbb" else 2
    base = str(i.address + 4) if table.base == PC else f"R[{table.base}]"
    reads = [table.index, *([] if table.base == PC else [table.base])]
    index = f"R[{table.index}]" if width == 1 else f"R[{table.index}] * 2"
    return part([f"N = m.load({base} + {index} & {M}, {width}) if {known(reads)} else None",
                 f"R[15] = None if N is None else {i.address + 4} + 2 * N"], reads, [PC], stays=True)


def _moves(i: Instruction) -> list[Part] | None:
    if i.name == "adr" or (i.name in ("add", "sub") and len(i.ops) == 3 and i.ops[1] == Reg(PC)):
        d, offset = reg(i, 0), imm(i, len(i.ops) - 1)
        base = (i.address + 4) & ~3
        return [part(f"R[{d}] = {(base - offset if i.name == 'sub' else base + offset) & M}", [], [d])]
    if i.name == "movt":
        d = reg(i, 0)
        return [part(f"R[{d}] = (R[{d}] & 0xffff) | {(imm(i, 1) & 0xffff) << 16} if {known([d])} else None", [d], [d])]
    if i.name not in ("mov", "mvn"):
        return None
    if i.ops[0] == Reg(PC):
        return [part(f"R[15] = R[{reg(i, 1)}]", [reg(i, 1)], [PC], stays=True)]
    d, second = reg(i, 0), Operand2(i.ops[1], i.address)
    text = second.text if i.name == "mov" else f"~{second.text} & {M}"
    if second.unknown:
        text = "None"
    elif second.reads and i.name == "mvn":
        text = f"m.bits({text}, {second.text}) if {second.known} else None"
    return [part([*second.before, f"R[{d}] = {text}", *logic_flags(i, d)], second.reads, flagged(i, d))]


def _arithmetic(i: Instruction) -> list[Part] | None:
    name = i.name
    if name in COMPARES:
        return [_compare(i)]
    if name not in ("add", "sub", "rsb", "and", "orr", "eor", "bic", "orn", "adc", "sbc"):
        return None
    if i.ops[0] == Reg(PC):
        if i.name != "add" or not isinstance(i.ops[-1], Reg) or i.ops[-1].shift:
            raise Refused(f"{i} computes a target in a way that is not followed")
        r = reg(i, len(i.ops) - 1)
        return [part(f"R[15] = None if R[{r}] is None else R[{r}] + {i.address + 4} & {M}", [r], [PC], stays=True)]
    d = reg(i, 0)
    first = reg(i, 1) if len(i.ops) == 3 else d
    second = Operand2(i.ops[-1], i.address)
    a, b = f"R[{first}]", second.text
    reads = [first, *second.reads]
    if second.unknown:
        return [part([f"R[{d}] = None", "F = None"], [*reads, FLAGS], [d, FLAGS])]
    if name in ("adc", "sbc"):
        return [_with_carry(i, d, first, second)]
    if name in ("add", "sub", "rsb"):
        return [_sum(i, d, first, second)]
    text = {"and": f"{a} & {b}", "orr": f"{a} | {b}", "eor": f"{a} ^ {b}", "bic": f"{a} & ~{b} & {M}",
            "orn": f"({a} | ~{b}) & {M}"}[name]
    other = b if name != "bic" else f"~{b} & {M}"
    ok = f"{known([first])} and {second.known}"
    return [part([*second.before, f"R[{d}] = m.bits({text}, {a}, {other}) if {ok} else m.loose({a}, None)", *logic_flags(i, d)],
                 reads, flagged(i, d))]


def _sum(i: Instruction, d: int, first: int, second: Operand2) -> Part:
    """ADD, SUB, RSB: small numbers are added in line, what may be a pointer into the stack by Memory's methods."""
    x, y = (second.text, f"R[{first}]") if i.name == "rsb" else (f"R[{first}]", second.text)
    method, sign = ("plus", "+") if i.name == "add" else ("minus", "-")
    reads, ok = [first, *second.reads], f"{known([first])} and {second.known}"
    if second.before:
        line = f"R[{d}] = m.{method}({x}, {y})"
    else:
        small = "".join(f" and R[{r}] < {WINDOWS}" for r in sorted(set(reads)))
        line = f"R[{d}] = ({x} {sign} {y}) & {M} if {known(reads)}{small} else m.{method}({x}, {y})"
    if not i.flags:
        return part([*second.before, line], reads, [d])
    how = f"m.sum({x}, {y})" if i.name == "add" else f"m.compare({x}, {y})"
    return part([*second.before, f"N = {how} if {ok} else None", line, "F = N"], reads, [d, FLAGS])


def _compare(i: Instruction) -> Part:
    first, second = reg(i, 0), Operand2(i.ops[1], i.address)
    a, b, reads = f"R[{first}]", second.text, [first, *second.reads]
    if second.unknown:
        return part("F = None", reads, [FLAGS])
    text = {"cmp": f"m.compare({a}, {b})", "cmn": f"m.sum({a}, {b})",
            "tst": f"m.logic({a} & {b}, {a}, {b})", "teq": f"m.logic({a} ^ {b}, {a}, {b})"}[i.name]
    return part([*second.before, f"F = {text} if {known([first])} and {second.known} else None"], reads, [FLAGS])


def _with_carry(i: Instruction, d: int, first: int, second: Operand2) -> Part:
    a, b = f"R[{first}]", second.text if i.name == "adc" else f"~{second.text} & {M}"
    numbers = f"m.data(0, {a}, {second.text})" if second.reads else f"m.data(0, {a})"
    lines = [*second.before, f"C = nzcv(F)[2] if {known([first])} and {second.known} and {numbers} == 0 else None",
             f"N = (None, None) if C is None else add_carry({a}, {b}, C)", f"R[{d}] = N[0]"]
    return part(lines + (["F = N[1]"] if i.flags else []), [first, *second.reads, FLAGS], flagged(i, d))


def _shifts(i: Instruction) -> list[Part] | None:
    if i.name not in ("lsl", "lsr", "asr", "ror", "rrx"):
        return None
    d = reg(i, 0)
    if i.name == "rrx":
        return [part([f"R[{d}] = None", "F = None"], [FLAGS], [d, FLAGS])]
    source = reg(i, 1) if len(i.ops) == 3 else d
    last = i.ops[-1]
    if isinstance(last, Imm):
        n = last.value
        lines = [f"N = R[{source}]", f"R[{d}] = None if N is None else m.bits(shift({i.name!r}, N, {n}), N, "
                                     f"{7 if i.name == 'lsl' and n >= 29 else M})"]
        if i.flags and n:
            lines.append(f"F = None if R[{d}] is None else ('nzcv', R[{d}] >> 31, int(R[{d}] == 0), "
                         f"shifted_out({i.name!r}, N, {n}), None)")
        else:
            lines += logic_flags(i, d)
        return [part(lines, [source], flagged(i, d))]
    by = reg(i, len(i.ops) - 1)
    return [part([f"R[{d}] = m.data(shift({i.name!r}, R[{source}], R[{by}] & 255), R[{source}], R[{by}]) "
                  f"if {known([source, by])} else m.loose(R[{source}], None)", *logic_flags(i, d)],
                 [source, by], flagged(i, d))]


def _multiplies(i: Instruction) -> list[Part] | None:
    if i.name == "mul":
        d, a, b = reg(i, 0), reg(i, 1), reg(i, 2) if len(i.ops) == 3 else reg(i, 0)
        line = f"R[{d}] = m.data(R[{a}] * R[{b}] & {M}, R[{a}], R[{b}]) if {known([a, b])} else None"
        return [part([line, *logic_flags(i, d)], [a, b], flagged(i, d))]
    if i.name in ("mla", "mls"):
        d, a, b, c = (reg(i, n) for n in range(4))
        sign = "+" if i.name == "mla" else "-"
        product = f"m.data({sign}R[{a}] * R[{b}] & {M}, R[{a}], R[{b}])"
        return [part(f"R[{d}] = m.plus(R[{c}], {product} if {known([a, b])} else None)", [a, b, c], [d])]
    if i.name in HALVES:        # compilers take them for products of small indices, too
        d, a, b = (reg(i, n) for n in range(3))
        text = " * ".join(f"half(R[{r}], {16 * (which == 't')})" for r, which in zip((a, b), i.name[4:], strict=True))
        product, ok = f"m.data({text} & {M}, R[{a}], R[{b}])", known([a, b])
        if i.name[:4] == "smul":
            return [part(f"R[{d}] = {product} if {ok} else None", [a, b], [d])]
        c = reg(i, 3)
        return [part(f"R[{d}] = m.plus(R[{c}], {product} if {ok} else None)", [a, b, c], [d])]
    if i.name in ("udiv", "sdiv"):
        d, a, b = reg(i, 0), reg(i, len(i.ops) - 2), reg(i, len(i.ops) - 1)
        how = "divide" if i.name == "udiv" else "divide_signed"
        return [part(f"R[{d}] = m.data({how}(R[{a}], R[{b}]), R[{a}], R[{b}]) if {known([a, b])} else None", [a, b], [d])]
    if i.name in ("smull", "umull"):
        low, high, a, b = (reg(i, n) for n in range(4))
        product = f"signed(R[{a}]) * signed(R[{b}])" if i.name == "smull" else f"R[{a}] * R[{b}]"
        return [part([f"N = m.data({product}, R[{a}], R[{b}]) if {known([a, b])} else None",
                      f"R[{low}] = None if N is None else N & {M}",
                      f"R[{high}] = None if N is None else N >> 32 & {M}"], [a, b], [low, high])]
    if i.name in ("smlal", "umlal", "umaal") or i.name.startswith("smlal"):
        low, high, a, b = (reg(i, n) for n in range(4))
        return [part([f"R[{low}] = R[{high}] = None"], [a, b, low, high], [low, high])]
    return None


def _fields(i: Instruction) -> list[Part] | None:
    name = i.name
    if name in ("uxtb", "uxth", "sxtb", "sxth"):
        d, second = reg(i, 0), Operand2(i.ops[-1], i.address)
        bits = 8 if name.endswith("b") else 16
        text = f"{second.text} & {(1 << bits) - 1}" if name[0] == "u" else f"extend({second.text}, {bits})"
        return [_of_operand(d, second, text)]
    if name in ("ubfx", "sbfx"):
        d, a, low, width = reg(i, 0), reg(i, 1), imm(i, 2), imm(i, 3)
        text = f"R[{a}] >> {low} & {(1 << width) - 1}" if name == "ubfx" else f"extend(R[{a}] >> {low}, {width})"
        return [part(f"R[{d}] = m.bits({text}, R[{a}]) if {known([a])} else None", [a], [d])]
    if name == "bfc":
        d, mask = reg(i, 0), ((1 << imm(i, 2)) - 1) << imm(i, 1)
        return [part(f"R[{d}] = m.bits(R[{d}] & {~mask & M}, R[{d}], {~mask & M}) if {known([d])} else None", [d], [d])]
    if name == "bfi":
        d, a, low, mask = reg(i, 0), reg(i, 1), imm(i, 2), (1 << imm(i, 3)) - 1
        text = f"R[{d}] & {~(mask << low) & M} | (R[{a}] & {mask}) << {low}"
        return [part(f"R[{d}] = m.bits({text}, R[{d}], R[{a}]) if {known([a, d])} else None", [a, d], [d])]
    if name in ("clz", "rbit"):
        d, a = reg(i, 0), reg(i, 1)
        text = f"32 - R[{a}].bit_length()" if name == "clz" else f"reverse_bits(R[{a}])"
        return [part(f"R[{d}] = m.bits({text}, R[{a}]) if {known([a])} else None", [a], [d])]
    if name in ("ssat", "usat"):
        d, second = reg(i, 0), Operand2(i.ops[2], i.address)
        text = f"saturate({second.text}, {imm(i, 1)}, {name == 'usat'})"
        return [_of_operand(d, second, text)]
    return None


def _of_operand(d: int, second: Operand2, text: str) -> Part:
    """A field, or the limited value, of an operand that may be shifted."""
    return part([*second.before, f"R[{d}] = m.bits({text}, {second.text}) if {second.known} else None"], second.reads, [d])


def _selects(i: Instruction) -> list[Part] | None:
    """CSEL and its kin."""
    if i.name not in ("csel", "csinc", "csinv", "csneg"):
        return None
    d = reg(i, 0)
    names, reads = [], [FLAGS]
    for op in i.ops[1:3]:
        names.append(f"R[{op.n}]" if isinstance(op, Reg) else "0")      # `zr` reads as zero
        reads += [op.n] if isinstance(op, Reg) else []
    change = {"csel": "A", "csinc": "A + 1", "csinv": "~A", "csneg": "-A"}[i.name]
    return [part([f"C, A = holds({word(i.ops[3])!r}, F), {names[1]}", f"A = None if A is None else {change} & {M}",
                  f"N = {names[0]}", f"R[{d}] = m.either(N, A) if C is None else N if C else A"], reads, [d])]


HALVES = tuple(f"{name}{a}{b}" for name in ("smul", "smla") for a in "bt" for b in "bt")
LONG_SHIFTS = ("asrl", "lsll", "lsrl", "sqrshrl", "uqrshll", "sqshll", "uqshll", "srshrl", "urshrl")


def _opaque(i: Instruction) -> list[Part]:
    """Instructions on packed numbers and the like: the result is not followed."""
    writes = [reg(i, 0)]
    if i.name.startswith("smlald") or i.name in LONG_SHIFTS:
        writes.append(reg(i, 1))
    reads = {op.n for op in i.ops if isinstance(op, Reg)}
    lost = [f"m.lost(R[{r}])" for r in sorted(reads - set(writes))]
    return [part([*lost, *(f"R[{r}] = None" for r in writes)], reads, writes)]
