"""Tables of cases that a single test checks row by row."""

import inspect
from collections.abc import Callable, Iterable
from traceback import extract_tb
from typing import Any

import pytest


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Call a test with each row of a table and report all rows that fail; it is one case for pytest.

    Args:
        names: The parameters of the test that a row fills. Fixtures fill the others; all rows share them.
        rows: One value for a single name, else a tuple of values.
    """
    keys = (names,) if isinstance(names, str) else names
    table = [dict(zip(keys, (row,) if isinstance(names, str) else row, strict=True)) for row in rows]

    def decorate(test: Callable[..., Any]) -> Any:
        failures: list[str] = []

        def add(row: dict[str, Any], error: BaseException) -> None:
            frames = extract_tb(error.__traceback__)
            line = [frame.lineno for frame in frames if frame.filename == inspect.getfile(test)][-1]
            failures.append(f"{tuple(row.values())!r:.400}: line {line}: {type(error).__name__}: {error}")

        def report() -> None:
            failed, failures[:] = list(failures), []
            assert not failed, f"{len(failed)} of {len(table)} rows failed\n" + "\n".join(failed)

        def run(**fixtures: Any) -> None:
            for row in table:
                try:
                    test(**row, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    add(row, error)
            report()

        async def run_async(**fixtures: Any) -> None:
            for row in table:
                try:
                    await test(**row, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    add(row, error)
            report()

        made: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        made.__signature__ = signature.replace(parameters=others)
        made.__name__, made.__doc__ = test.__name__, test.__doc__
        if hasattr(test, "pytestmark"):
            made.pytestmark = test.pytestmark
        return made

    return decorate
