"""Options of the test run."""

import pytest
from hypothesis import settings

# The same examples in every run, and no limit on the time of one: most compile C.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-models", action="store_true", help="run the large models on the slow emulated cores, too")
