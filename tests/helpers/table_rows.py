"""Tables of cases that one test checks: each row that fails is reported."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def table_rows(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Call a test for each row of a table, as `pytest.mark.parametrize` does, but as one case.

    Args:
        names: The parameters that a row fills in; the others are fixtures, which all rows share.
        rows: The values, as tuples where there are several names.
    """
    keys = (names,) if isinstance(names, str) else names

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def run(**fixtures: Any) -> None:
            faults = []
            for row in rows:
                values = dict(zip(keys, (row,) if isinstance(names, str) else row, strict=True))
                try:
                    result = function(**values, **fixtures)
                    if inspect.iscoroutine(result):
                        asyncio.run(result)
                except (Exception, pytest.fail.Exception) as error:
                    faults.append(f"{row!r:.300}: {type(error).__name__}: {error}")
            assert not faults, f"{len(faults)} rows failed:\n" + "\n".join(faults)

        signature = inspect.signature(function)
        fixtures = [each for name, each in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate
