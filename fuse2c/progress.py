"""Signs of life on standard error, for what takes longer than two seconds."""
from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

FIRST_S = 2.0       # nothing is shown before
BLINK_S = 0.5       # between two states of the line on a terminal


class Progress:
    """Says what is going on: on a terminal one line that disappears at the end, elsewhere a line at growing intervals.

    Use as a context manager. `update` changes the text; it may be called from any thread.
    """

    def __init__(self, text: str, stream: TextIO | None = None, first_s: float = FIRST_S) -> None:
        self.text = text
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._first_s = first_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def update(self, text: str) -> None:
        """Say something else from now on."""
        self.text = text

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        start, wait, shown = time.monotonic(), self._first_s, False
        while not self._end.wait(wait):
            passed = time.monotonic() - start
            line = f"{self.text} ({passed:.0f} s)"
            self._stream.write(f"\r{line}\x1b[K" if self._terminal else f"{line}\n")
            self._stream.flush()
            shown = True
            wait = BLINK_S if self._terminal else max(passed, self._first_s)
        if shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
