"""The plugin for pytest: `--kumiki`, or `--kumiki-say`, has the tests' subprocesses made by kumiki, and the fixture
`kumiki_template` is a template for the functions that tests run in processes of their own.

pytest loads it in every run where kumiki is installed: it imports kumiki, and with it a shared library, only where that is
asked for."""

from typing import TYPE_CHECKING, Any, Iterator

import pytest

if TYPE_CHECKING:
    from kumiki import Template


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("kumiki")
    group.addoption("--kumiki", action="store_true", help="children of subprocess, asyncio and multiprocessing are made without a fork")
    group.addoption("--kumiki-say", action="store_true", help="the same, and each start is told")
    parser.addini("kumiki_modules", "what the template of the fixture kumiki_template imports", type="linelist")


def pytest_configure(config: Any) -> None:
    if not _is_asked(config):
        return
    try:
        from kumiki import _instead
    except ImportError as error:
        raise pytest.UsageError(f"--kumiki: {error}") from error
    _instead.put_in_place(config.getoption("--kumiki-say"))
    config.add_cleanup(_instead.put_back)


def pytest_report_header(config: Any) -> "str | None":
    return "kumiki: children are made without a fork" if _is_asked(config) else None


def _is_asked(config: Any) -> bool:
    return bool(config.getoption("--kumiki") or config.getoption("--kumiki-say"))


@pytest.fixture(scope="session")
def kumiki_template(request: Any) -> "Iterator[Template]":
    """A kumiki.Template for the whole run, which has imported what the setting kumiki_modules names."""
    from kumiki import Template

    with Template(request.config.getini("kumiki_modules")) as template:
        yield template
