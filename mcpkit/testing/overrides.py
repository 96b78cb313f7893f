"""Replace dependencies of a server in tests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from ..server import Server


@contextmanager
def override(
    server: Server, function: Callable[..., object], replacement: Callable[..., object]
) -> Generator[None]:
    """Replace a dependency of a server's handlers within a `with` block.

    Args:
        server: The server.
        function: The function in `Depends(...)`.
        replacement: The function that is called instead, of any kind. It may have dependencies of its own, `function`
            among them.

    Raises:
        RegistrationError: No handler depends on `function`, or the arguments of the replacement cannot be filled.
    """
    from ..components.dependency_runner import overridden

    runtime = server.engine.runtime
    before = runtime.overrides
    injections = [
        each for part in server.catalog.parts for component in part for each in component.injections
    ]
    runtime.overrides = overridden(before, injections, function, replacement)
    try:
        yield
    finally:
        runtime.overrides = before
