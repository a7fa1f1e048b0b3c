"""Abstract values: a number of 32 bits, or None for what is not known; flags, memory, and the arithmetic on numbers.

Some numbers stand for addresses whose place is not known: those into the stack, and those that an argument of the
analysed function gives. Each has a window of 2^24 numbers that no program uses as addresses: base + offset, for any
base. Only what holds for every base is computed from them; a stack is 8-byte aligned.
"""
from __future__ import annotations

from collections.abc import Callable

from fuse2c.errors import Refused
from fuse2c.wcet.image import Image

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


def _ignore(site: int) -> None:
    """Nobody asked."""


class Memory:
    """What is known of the stack: whole words, and single bytes of words that are known in part.

    `wild`: an unknown pointer may point into the stack, so a store through any unknown pointer may change it.
    `guarded`: words that hold saved registers, which memory-safe code does not overwrite. `given`: words of the caller's
    whose values the analysis was told; only the code's own stores to their addresses change them. `objects`: from this
    window on, numbers are addresses of objects, which are not 0; an argument below may be any number.
    """

    __slots__ = ("bytes", "given", "guarded", "holes", "image", "indexed", "objects", "placed", "unfollowed", "weak", "wild",
                 "words")

    def __init__(self, image: Image, objects: int = STACK) -> None:
        self.image, self.objects = image, objects
        self.given: dict[int, int] = {}
        self.words: dict[int, int] = {}
        self.bytes: dict[int, int] = {}
        self.guarded: frozenset[int] = frozenset()
        self.wild = self.placed = False     # placed: the lowest four bits of stack pointers are those of their numbers
        self.holes: dict[int, int] = {}     # words whose value was not followed, and the store that wrote it
        self.indexed: tuple[Value, Value] = (None, None)    # base and index of the last load of a word by an index
        self.weak = False                   # stores may or may not happen
        self.unfollowed: Callable[[int], None] = _ignore

    def copy(self) -> Memory:
        """An independent copy."""
        other = Memory(self.image, self.objects)
        other.given = self.given
        other.indexed = self.indexed
        other.unfollowed, other.holes, other.placed = self.unfollowed, dict(self.holes), self.placed
        other.words, other.bytes, other.guarded, other.wild = dict(self.words), dict(self.bytes), self.guarded, self.wild
        return other

    def same(self, other: Memory) -> bool:
        """Whether both know the same."""
        return self.words == other.words and self.bytes == other.bytes and self.wild == other.wild

    def load(self, address: Value, width: int) -> Value:
        """A zero-extended number, where the program or the stack fixes it."""
        if address is None:
            return None
        if address >> WINDOW != STACK:
            return self.given[address] if address in self.given and width == 4 else self.image.read(address, width)
        word = self.words.get(address & ~3)
        at = address & 3
        if word is not None and at + width <= 4:
            return word >> (8 * at) & ((1 << 8 * width) - 1)
        value = 0
        for k in range(width):
            byte = self._byte(address + k)
            if byte is None:
                if address + k & ~3 in self.holes:
                    self.unfollowed(self.holes[address + k & ~3])
                return None
            value |= byte << (8 * k)
        return value

    def _byte(self, address: int) -> int | None:
        word = self.words.get(address & ~3)
        return self.bytes.get(address) if word is None else word >> (8 * (address & 3)) & 255

    def store(self, address: Value, width: int, value: Value, site: int) -> None:
        """A store of `width` bytes; `value` is None if it is not known. `site`: the instruction, if its value was not
        followed; `unfollowed` is called with it when the value is loaded."""
        if self.weak and value is not None:
            self.lost(value)
            value = None
        if address is None:
            if value is not None:
                self.lost(value)
            if self.wild:
                self.scatter()
        elif address >> WINDOW != STACK:
            if not window(address) and self.image.read(address, 1) is not None:
                raise Refused(f"a store changes code or a constant, at {self.image.place(address)}",
                              hint="no code that modifies itself; what changes belongs in a section that may be written")
            if value is not None:
                self.lost(value)
            if window(address) and self.given:
                self.given = {a: v for a, v in self.given.items() if a + 4 <= address or address + width <= a}
        elif site:
            for k in range(width):
                self._store_byte(address + k, None)
            self.holes[address & ~3] = site
        elif value is None and not self.words.keys() & range(address & ~3, address + width, 4) and not self.bytes:
            return
        elif width == 4 and not address & 3 and value is not None:
            self.words[address] = value
            if self.holes:
                self.holes.pop(address, None)
            if self.bytes:
                for k in range(4):
                    self.bytes.pop(address + k, None)
        else:
            for k in range(width):
                self._store_byte(address + k, None if value is None else value >> (8 * k) & 255)

    def _store_byte(self, address: int, value: Value) -> None:
        base = address & ~3
        word = self.words.pop(base, None)
        if word is not None:
            self.lost(word)
            for k in range(4):
                self.bytes[base + k] = word >> (8 * k) & 255
        if value is None:
            self.bytes.pop(address, None)
            return
        self.bytes[address] = value
        if all(base + k in self.bytes for k in range(4)):
            self.words[base] = sum(self.bytes.pop(base + k) << (8 * k) for k in range(4))

    def guard(self, address: int) -> None:
        """The word holds a saved register."""
        if address not in self.guarded:
            self.guarded = self.guarded | {address}

    def release(self, below: int) -> None:
        """The stack pointer moved up: what lies below it is nobody's."""
        for kept in (self.words, self.bytes, self.holes):
            for a in [a for a in kept if a < below]:
                del kept[a]
        self.guarded = frozenset(a for a in self.guarded if a >= below)

    def scatter(self) -> None:
        """A store somewhere into the stack: saved registers stay, everything else is unknown."""
        self.words = {a: v for a, v in self.words.items() if a in self.guarded}
        self.bytes = {}

    def lost(self, value: Value) -> None:
        """A value that goes where it is not followed; if it is a pointer into the stack, unknown pointers may be."""
        if value is not None and inside(value):
            self.wild = True

    def copied(self, address: Value, width: int) -> None:
        """Bytes that go into registers that are not followed; a pointer into the stack among them is out of sight."""
        if address is not None and address >> WINDOW == STACK:
            for at in range(address & ~3, address + width, 4):
                self.lost(self.words.get(at))

    def gathered(self, base: Value) -> None:
        """Words from anywhere around a base go into vectors."""
        if base is not None and inside(base):
            for value in self.words.values():
                self.lost(value)

    def loose(self, a: Value, b: Value) -> Value:
        """The unknown result of known or unknown operands."""
        self.lost(a)
        self.lost(b)
        return None

    def plus(self, a: Value, b: Value) -> Value:
        """a + b; an address and a number give an address of the same window."""
        if a is None or b is None:
            return self.loose(a, b)
        r = (a + b) & M
        x, y = window(a), window(b)
        return r if not (x or y) or (not (x and y) and window(r) == x + y) else self.loose(a, b)

    def minus(self, a: Value, b: Value) -> Value:
        """a - b; of two addresses of one window their distance."""
        if a is None or b is None:
            return self.loose(a, b)
        r = (a - b) & M
        x, y = window(a), window(b)
        return r if x == y or (not y and window(r) == x) else self.loose(a, b)

    def compare(self, a: Value, b: Value) -> Flags:
        """Flags of a - b; addresses compare with those of the same window, without a sign; objects are not at 0."""
        if a is None or b is None:
            return None
        x, y = window(a), window(b)
        if not (x or y):
            return ("sub", a, b)
        if x == y:
            return ("nzcv", None, int(a == b), int(a >= b), None)
        return ("nzcv", None, 0, None, None) if 0 in (a, b) and max(x, y) >= self.objects else None

    def sum(self, a: int, b: int) -> Flags:
        """Flags of a + b."""
        return None if window(a) or window(b) else ("add", a, b)

    def either(self, a: Value, b: Value) -> Value:
        """One of two values."""
        return a if a == b else self.loose(a, b)

    def data(self, result: int, *operands: int) -> Value:
        """The result of an operation on numbers; of addresses nothing is known."""
        if not any(map(window, operands)):
            return result
        for v in operands:
            self.lost(v)
        return None

    def logic(self, result: int, a: int, b: int) -> Flags:
        """Flags of a bit operation on known a and b."""
        r = self.bits(result, a, b)
        return None if r is None else ("log", r)

    def bits(self, result: int, a: int, b: int = M) -> Value:
        """The result of any other operation on known a and b: of pointers, only the alignment of some is known."""
        x, y = window(a), window(b)
        if not (x or y) or (x + y in (ARENA, STACK) and (a <= ALIGNED or b <= ALIGNED)):
            return result
        if self.placed and x == STACK and result == a & b and min(b, b ^ M) <= PLACED:
            return result
        self.wild = self.wild or STACK in (x, y)
        return None

    def merge(self, other: Memory) -> None:
        """What both know."""
        self.wild = self.wild or other.wild
        if self.given is not other.given:
            self.given = dict(self.given.items() & other.given.items())
        for mine, theirs in ((self.words, other.words), (self.bytes, other.bytes)):
            if mine != theirs:
                for a in [a for a, v in mine.items() if theirs.get(a) != v]:
                    self.lost(mine.pop(a))
                for a, v in theirs.items():
                    if a not in mine:
                        self.lost(v)
        if self.indexed != other.indexed:
            self.indexed = (None, None)
        if self.holes != other.holes:
            self.holes |= other.holes
        if self.guarded is not other.guarded:
            self.guarded &= other.guarded
