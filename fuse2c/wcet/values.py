"""Abstract values: a number of 32 bits, or None for what is not known; flags, and the arithmetic on numbers.

Some numbers stand for addresses whose place is not known: those into the stack, and those that an argument of the
analysed function gives. Each has a window of 2^24 numbers that no program uses as addresses: base + offset, for any
base. Only what holds for every base is computed from them; a stack is 8-byte aligned.
"""
from __future__ import annotations

M = 0xFFFFFFFF
SIGN = 0x80000000
WINDOW = 24             # bits of an offset in a window
FIRST, ARENA, STACK = 0x93, 0xA1, 0xA2
"""The windows: arguments from FIRST on; of an arena, which like the stack is aligned; the stack the last one.

No factor by which compilers divide by a number up to 50 lies in one: 0x92492493, for 7, would be taken for an address.
"""
WINDOWS = FIRST << WINDOW
MIDDLE = 1 << (WINDOW - 1)
ARENA_START = (ARENA << WINDOW) + MIDDLE
TOP = (STACK << WINDOW) + MIDDLE
"""The stack pointer at the start of the analysed function: arguments lie above, frames below."""
ALIGNED, PLACED = 7, 15         # low bits of a pointer into stack or arena that are known; if the stack is `placed`

Value = int | None
Flags = tuple | None
"""None, or how the flags came about: ("sub", a, b), ("add", a, b), ("log", result), ("nzcv", n, z, c, v), where c and
v may be None."""


def window(v: int) -> int:
    """The window that a number lies in, 0 for a plain number."""
    k = v >> WINDOW
    return k if FIRST <= k <= STACK else 0


def pointer(k: int) -> Value:
    """To the start of the k-th object that an argument points to; None for more than there are windows."""
    return None if FIRST + k >= ARENA else (FIRST + k << WINDOW) + MIDDLE


def inside(v: int) -> bool:
    """Whether a number is a pointer into the stack."""
    return v >> WINDOW == STACK


def signed(v: int) -> int:
    """The two's complement number."""
    return v - ((v & SIGN) << 1)


def extend(v: int, bits: int) -> int:
    """The lowest `bits`, sign-extended to 32."""
    v &= (1 << bits) - 1
    return (v - ((v >> (bits - 1)) << bits)) & M


def half(v: int, low: int) -> int:
    """The 16 bits from `low` on, with their sign."""
    return signed(extend(v >> low, 16))


def shift(kind: str, v: int, n: int) -> int:
    """`v` shifted by `n` places, 0 to 255."""
    if kind == "lsl":
        return (v << n) & M if n < 32 else 0
    if kind == "lsr":
        return v >> n if n < 32 else 0
    if kind == "asr":
        return (signed(v) >> min(n, 31)) & M
    n &= 31
    return ((v >> n) | (v << (32 - n))) & M


def shifted_out(kind: str, v: int, n: int) -> int | None:
    """The carry that a shift by a fixed 1 to 32 places leaves."""
    if kind == "lsl":
        return v >> (32 - n) & 1
    return v >> (n - 1) & 1 if kind in ("lsr", "asr", "ror") else None


def divide(a: int, b: int) -> int:
    """UDIV: a division by zero gives 0."""
    return a // b if b else 0


def divide_signed(a: int, b: int) -> int:
    """SDIV: rounds towards zero; a division by zero gives 0."""
    x, y = signed(a), signed(b)
    if y == 0:
        return 0
    q = abs(x) // abs(y)
    return (q if (x < 0) == (y < 0) else -q) & M


def reverse_bits(v: int) -> int:
    """RBIT."""
    return int(f"{v:032b}"[::-1], 2)


def saturate(v: int, bits: int, unsigned: bool) -> int:
    """SSAT or USAT of a number of 32 bits."""
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return max(low, min(high, signed(v))) & M


def nzcv(f: Flags) -> tuple:
    """The four flags, each 0, 1 or None."""
    if f is None:
        return None, None, None, None
    if f[0] == "sub":
        a, b = f[1], f[2]
        r = (a - b) & M
        return r >> 31, int(r == 0), int(a >= b), ((a ^ b) & (a ^ r)) >> 31
    if f[0] == "add":
        a, b = f[1], f[2]
        r = (a + b) & M
        return r >> 31, int(r == 0), int(a + b > M), (~(a ^ b) & (a ^ r) & M) >> 31
    if f[0] == "log":
        return f[1] >> 31, int(f[1] == 0), None, None
    return tuple(f[1:])


def logged(v: Value) -> Flags:
    """Flags of a result, carry unknown; those of a pointer into the stack are not known."""
    return None if v is None or window(v) else ("log", v)


def add_carry(a: int, b: int, carry: int) -> tuple[int, tuple]:
    """a + b + carry with its flags: ADCS, and with ~b SBCS."""
    total = a + b + carry
    r = total & M
    return r, ("nzcv", r >> 31, int(r == 0), int(total > M), (~(a ^ b) & (a ^ r) & M) >> 31)


_PAIRS = {"eq": "ne", "hs": "lo", "mi": "pl", "vs": "vc", "hi": "ls", "ge": "lt", "gt": "le"}
_NEGATED = {no: yes for yes, no in _PAIRS.items()}


def holds(condition: str, f: Flags) -> bool | None:
    """Whether a condition is met; None if the flags do not tell."""
    if f is None:
        return None
    positive = _NEGATED.get(condition, condition)
    got = _holds(positive, f)
    return got if got is None or positive == condition else not got


def _holds(condition: str, f: tuple) -> bool | None:
    n, z, c, v = nzcv(f)
    if condition in ("eq", "hs", "mi", "vs"):
        flag = {"eq": z, "hs": c, "mi": n, "vs": v}[condition]
        return None if flag is None else bool(flag)
    if condition == "hi":
        if c == 0 or z == 1:
            return False
        return None if c is None or z is None else True
    same = None if n is None or v is None else n == v
    if condition == "ge" or same is False:
        return same
    return False if z == 1 else None if same is None or z is None else True
