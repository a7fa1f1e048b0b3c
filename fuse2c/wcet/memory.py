"""What is known of the stack and of constants, and what stores do to it."""
from __future__ import annotations

from collections.abc import Callable

from fuse2c.errors import Refused
from fuse2c.wcet.image import CANARY, Image
from fuse2c.wcet.values import ALIGNED, ARENA, PLACED, STACK, WINDOW, Flags, M, Value, inside, window


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
            if value == CANARY:
                self.guard(address)
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
