"""Functions that are not `async`: version 1 calls them in the event loop's thread, mcpkit in worker threads."""

from __future__ import annotations

import libcst as cst

from .file import File
from .step import Step

_OF_LOOPS = frozenset(
    {
        "asyncio.create_task",
        "asyncio.ensure_future",
        "asyncio.get_event_loop",
        "asyncio.get_running_loop",
    }
)


class Threads(Step):
    """Finds functions that must stay in one thread, by the objects that they use, directly or in other functions.

    These are objects that belong to their thread (`sqlite3.connect`, `threading.local`), the event loop, and names that
    a function rebinds with `global`, as only one such function runs at a time in version 1.
    """

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._functions: list[set[str]] = []
        self._coroutines: set[str] = set()
        self._uses: dict[str, set[str]] = {}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Enter a function."""
        names = self.whole_names(node)
        self._functions.append(names)
        if node.asynchronous is not None:
            self._coroutines |= names

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Leave it."""
        self._functions.pop()
        return updated_node

    def visit_Global(self, node: cst.Global) -> None:
        """Record a function that rebinds names of the module."""
        for each in self._functions:
            self.file.in_loop |= each

    def visit_Name(self, node: cst.Name) -> None:
        """Record a name that a function uses."""
        self._use(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Record an attribute that a function uses."""
        self._use(node)

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Follow the uses until no function is added."""
        found = self.file.in_loop | _OF_LOOPS
        while added := {name for name, used in self._uses.items() if name not in found and used & found}:
            found |= added
        self.file.in_loop = found - _OF_LOOPS - self._coroutines
        return updated_node

    def _use(self, node: cst.Name | cst.Attribute) -> None:
        if self._functions:
            used = self.whole_names(node)
            for names in self._functions:
                for name in names - used:
                    self._uses.setdefault(name, set()).update(used)
