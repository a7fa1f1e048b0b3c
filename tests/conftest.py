"""Options of the test run."""

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[str, str], None]

# The same examples in every run, and no limit on the time of one: most compile C.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-models", action="store_true", help="run the large models on the slow emulated cores, too")
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the file of that name under tests/golden, or write it with --update-golden."""
    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        diff = difflib.unified_diff(old.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
        assert text == old, "read the difference; if it is right, run pytest --update-golden\n" + "\n".join(diff)
    return compare
