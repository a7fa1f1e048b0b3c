"""Model and node names become C identifiers here and nowhere else."""
from __future__ import annotations

import keyword
import re
import unicodedata

RESERVED = frozenset("""
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
bool true false nullptr int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t main errno NULL
arena memcpy memset row row_end linux unix
alignas alignof atomic_cancel bitand bitor catch char16_t char32_t compl concept consteval constexpr constinit
const_cast co_await co_return co_yield decltype delete dynamic_cast explicit friend mutable namespace new noexcept
operator private protected public reinterpret_cast requires static_assert static_cast template this thread_local throw
typeid typename using virtual wchar_t and_eq not_eq or_eq xor xor_eq
assert complex ctype fenv float_t inttypes limits locale math setjmp signal stdarg stdbool stddef stdint stdio stdlib
string tgmath time wctype stdatomic sched arm_mve arm_neon immintrin
all clean help install package test example_main f2c
""".split())
"""Words of C, C++ and their libraries; headers that a model's own would hide; targets of make and CMake; our own files."""


def identifier(text: str, fallback: str = "model") -> str:
    """A lower-case C99 identifier that reads like `text`: ASCII, no leading digit or underscore, no keyword."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^0-9a-zA-Z]+", "_", plain).strip("_").lower()[:48].strip("_") or fallback
    if name[0].isdigit():
        name = f"n{name}"
    ours = name.startswith("f2c_")      # a header of runtime_c would lie at the same place
    return f"{name}_" if ours or name in RESERVED or keyword.iskeyword(name) else name


class Namer:
    """Hands out identifiers that are unique within one model."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)

    def __call__(self, text: str, fallback: str = "t") -> str:
        base = name = identifier(text, fallback)
        count = 2
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name
