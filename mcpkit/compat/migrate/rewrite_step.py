"""Base class of the steps of a rewriting, and the step that collects facts about the names of a file for the others."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import libcst as cst
from libcst.metadata import (
    BuiltinScope,
    ImportAssignment,
    ProviderT,
    QualifiedNameProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from .name_tables import CONTEXT_CLASSES, DECORATORS, RENAMED, SERVED, SERVER_CLASSES, THREAD_BOUND, CallForm
from .syntax import (
    bound,
    call,
    keyword,
    lines_above,
    nodes_in,
    owner_of,
    path_of,
    text_of,
    with_arguments,
    without_statements,
)

MARK = "# mcpkit: "
_MARK_WIDTH = 100
_SELF = re.compile(r"\.[^.]+\.<locals>\.self(?=\.|$)")

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.Decorator
Values = dict[str, cst.BaseExpression]

_ALIASES = {
    "user": "user_message",
    "assistant": "assistant_message",
    "current_context": "current_mcp_context",
    "serve_stdio": "serve_mcp_stdio",
    "Server": "McpServer",
    "Context": "McpContext",
    "Text": "TextBlock",
    "Image": "McpImage",
    "Audio": "McpAudio",
}
"""Aliases for names that a file defines itself."""


@dataclass
class SourceFile:
    """Facts about a file that is being rewritten. Names are qualified, such as `make.<locals>.mcp`.

    Attributes:
        servers: Servers of version 1.
        contexts: Contexts of requests.
        elicitations: Results of elicitation.
        samples: Results of sampling.
        registered: Registered functions, with their kind: tool, resource or prompt.
        in_loop: Functions that are not `async`, and use objects that must stay in one thread.
        subclasses: Subclasses of the server's class.
        constructors: Subclasses without an `__init__`.
        served: Constructor arguments of each server that belong to `run` and `asgi`.
        scopes: The functions that use each of these names.
        security: Constructor arguments of each server with rules for hosts.
        defined: Names with another meaning somewhere in the file.
        aliases: Names that the author chose for native objects.
        native: Used names of mcpkit, by their names there.
        modules: Other modules that the rewritten file needs.
        reads_schemas: Whether the file reads `inputSchema` of listed tools.
        keeps_parentheses: Whether `@mcp.tool()` stays unchanged, as all servers come from native files.
    """

    servers: set[str] = field(default_factory=set[str])
    contexts: set[str] = field(default_factory=set[str])
    elicitations: set[str] = field(default_factory=set[str])
    samples: set[str] = field(default_factory=set[str])
    registered: dict[str, str] = field(default_factory=dict[str, str])
    in_loop: set[str] = field(default_factory=set[str])
    subclasses: set[str] = field(default_factory=set[str])
    constructors: set[str] = field(default_factory=set[str])
    served: dict[str, Values] = field(default_factory=dict[str, Values])
    scopes: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    security: Values = field(default_factory=Values)
    defined: set[str] = field(default_factory=set[str])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    native: set[str] = field(default_factory=set[str])
    modules: set[str] = field(default_factory=set[str])
    reads_schemas: bool = False
    keeps_parentheses: bool = False

    def name(self, native: str) -> str:
        """Return the name of a native object in the rewritten file, and record its import."""
        self.native.add(native)
        if native in self.aliases:
            return self.aliases[native]
        return _ALIASES.get(native, f"Mcpkit{native}") if native in self.defined else native


@dataclass
class Function:
    """A function around the current node.

    Attributes:
        node: The function; for a lambda, the function around it.
        names: Its qualified names.
        is_async: Whether it is a coroutine function.
        tries: Number of `try` blocks with handlers around the current node.
    """

    node: cst.FunctionDef
    names: set[str]
    is_async: bool
    tries: int = 0


class Step(cst.CSTTransformer):
    """A pass over a file.

    Args:
        file: Facts about the file.

    Attributes:
        functions: The functions around the current node, the innermost last.
    """

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (QualifiedNameProvider,)

    def __init__(self, file: SourceFile) -> None:
        super().__init__()
        self.file = file
        self.functions: list[Function] = []
        self._marks: list[list[str]] = []
        self._removed: list[cst.CSTNode] = []

    # Names

    def whole_names(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names that an expression may have: imported or defined in the file."""
        found = self.get_metadata(QualifiedNameProvider, node, None)
        return set() if found is None else {_SELF.sub(".self", each.name) for each in found}

    def imported_names(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names that an expression may have by imports."""
        found = self.get_metadata(QualifiedNameProvider, node, None) or ()
        return {each.name for each in found if each.source is QualifiedNameSource.IMPORT}

    def is_server(self, node: cst.CSTNode) -> bool:
        """Return True if an expression is a server of version 1."""
        return not self.file.servers.isdisjoint(self.whole_names(node))

    def is_context(self, node: cst.CSTNode) -> bool:
        """Return True if an expression is the Context of a request."""
        return not self.file.contexts.isdisjoint(self.whole_names(node))

    def method_of_server(self, node: cst.BaseExpression) -> str | None:
        """Return `name` if an expression is `server.name`."""
        return node.attr.value if isinstance(node, cst.Attribute) and self.is_server(node.value) else None

    # Changes

    def mark(self, text: str) -> None:
        """Add a comment above the current statement about a change to make by hand."""
        if self._marks and text not in self._marks[-1]:
            self._marks[-1].append(text)

    def mark_arguments(self, native: str) -> None:
        """Mark a call with arguments that `*` or `**` hides."""
        self.mark(f"the arguments of {native} have other names than in version 1")

    def drop(self, statement: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        """Remove a statement, but keep the comments above it."""
        removed = statement.with_changes(body=[cst.Pass()])
        self._removed.append(removed)
        return removed

    def native_call(
        self,
        node: cst.Call,
        form: CallForm,
        *,
        without: Collection[str] = (),
        added: Mapping[str, cst.BaseExpression] | None = None,
    ) -> cst.Call | None:
        """Return a call with native arguments in their native order. The called function is not changed.

        Args:
            node: The call of version 1.
            form: The native form of its arguments.
            without: Arguments to leave out.
            added: Further arguments, by native name.

        Returns:
            The call; None if `*` or `**` hides some of its arguments.
        """
        arguments = bound(node, form.parameters)
        if arguments is None:
            return None
        values: Values = {}
        for name, argument in arguments.items():
            value = argument.value
            values[name] = (
                url_text(value)
                if name in form.urls
                else self._decoded(value)
                if name in form.encoded
                else value
            )
        first: list[cst.Arg] = []
        others: list[cst.Arg] = []
        are_named = False
        for name in form.first:
            if name in arguments and are_named:
                others.append(keyword(form.renamed.get(name, name), values[name]))
            elif name in arguments:
                first.append(cst.Arg(values[name]))
            elif name not in without:
                are_named = True  # what comes after it cannot be passed by position
        for name, argument in arguments.items():
            if name not in {*form.first, *form.dropped, *without}:
                native = keyword(form.renamed.get(name, name), values[name])
                others.append(
                    argument.with_changes(keyword=native.keyword, equal=native.equal, value=native.value)
                )
        others += [keyword(name, value) for name, value in (added or {}).items()]
        return with_arguments(node, [*first, *others])

    def _decoded(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """Return the bytes of a base64 expression: without its encoding, or with a decoding around it."""
        match value:
            case cst.Call(
                func=cst.Attribute(attr=cst.Name(value="decode"), value=cst.Call(func=encode, args=[only]))
            ) if path_of(encode) in {"base64.b64encode", "b64encode", "base64.standard_b64encode"}:
                return only.value
            case _:
                self.file.modules.add("base64")
                return call("base64.b64decode", value)

    # Visits of libcst

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Enter a statement or a function."""
        if isinstance(node, Statement):
            self._marks.append([])
        if isinstance(node, cst.FunctionDef):
            names = self.whole_names(node)
            self.functions.append(Function(node, names, is_async=node.asynchronous is not None))
        elif isinstance(node, cst.Lambda) and self.functions:
            self.functions.append(replace(self.functions[-1], is_async=False))
        return super().on_visit(node)

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Leave a statement with the marks above it, and a block without removed statements."""
        left: object = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.FunctionDef) or (
            isinstance(original_node, cst.Lambda) and self.functions
        ):
            self.functions.pop()
        marks = self._marks.pop() if isinstance(original_node, Statement) else []
        if marks and left not in self._removed:
            if isinstance(left, Statement):
                left = _marked(left, marks)
            elif isinstance(left, cst.FlattenSentinel):
                *first, last = left  # pyright: ignore[reportUnknownVariableType]  # unions of nodes
                assert isinstance(last, Statement), "the last item is a statement"
                left = cst.FlattenSentinel([*first, _marked(last, marks)])  # pyright: ignore[reportUnknownArgumentType]  # as above
        elif self._removed and isinstance(left, cst.IndentedBlock | cst.Module):
            left = without_statements(left, self._removed)
        return left  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # of its class


def url_text(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return the text in `AnyUrl(text)`."""
    if isinstance(value, cst.Call) and len(value.args) == 1:
        name = path_of(value.func)
        if name is not None and name.rpartition(".")[2] == "AnyUrl":
            return value.args[0].value
    return value


def _marked(node: Statement, marks: Collection[str]) -> Statement:
    """Return a statement with comments above it; those that it has already are not repeated."""
    above = [*lines_above(node)]
    present = " ".join(
        "".join(each.comment.value.removeprefix("#") for each in above if each.comment).split()
    )
    for text in marks:
        if " ".join(f"mcpkit: {text}".split()) not in present:
            lines = textwrap.wrap(
                f"{MARK}{text}", _MARK_WIDTH, subsequent_indent="#   ", break_long_words=False
            )
            above += [cst.EmptyLine(comment=cst.Comment(line)) for line in lines]
    return node.with_changes(leading_lines=above)


# Collection of the facts about a file

USUAL_CONTEXTS = {"ctx", "context", "mcp_ctx"}
_USUAL_SERVERS = {"mcp", "server", "app", "mcp_server", "mcp_app"}
_LOOP_BOUND = frozenset(
    {"asyncio.create_task", "asyncio.ensure_future", "asyncio.get_event_loop", "asyncio.get_running_loop"}
)


class SymbolCollector(Step):
    """Collects facts about a file.

    Functions that are not `async` are called in the event loop's thread in version 1, and in worker threads in mcpkit.
    Those must stay in one thread that use, directly or in other functions, objects that belong to their thread
    (`sqlite3.connect`, `threading.local`), the event loop, or names that a function rebinds with `global`, as only one
    such function runs at a time in version 1.

    Args:
        file: Known facts: servers that are imported from other files.
    """

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (QualifiedNameProvider, ScopeProvider)

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._factories: set[str] = set()  # functions that return a server
        self._coroutines: set[str] = set()
        self._uses: dict[str, set[str]] = {}  # names by the function that uses them

    def visit_Module(self, node: cst.Module) -> None:
        """Record the functions that return a server, and the names that the file defines."""
        for each in node.body:
            if isinstance(each, cst.FunctionDef) and each.returns and self._is(each.returns, SERVER_CLASSES):
                self._factories.add(each.name.value)
        for scope in dict.fromkeys(self.get_metadata(ScopeProvider, each, None) for each in nodes_in(node)):
            if isinstance(scope, Scope) and not isinstance(scope, BuiltinScope):
                self._record_assignments(scope)

    def _record_assignments(self, scope: Scope) -> None:
        for assignment in scope.assignments:
            names = assignment.get_qualified_names_for(assignment.name)
            native = {RENAMED[each.name] for each in names if each.name in RENAMED}
            if not native:
                self.file.defined.add(assignment.name)
            elif isinstance(assignment, ImportAssignment) and not any(
                each.name.endswith(f".{assignment.name}") for each in names
            ):
                self.file.aliases[next(iter(native))] = assignment.name

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Record a subclass of the server's class."""
        if any(self._is(base.value, SERVER_CLASSES) for base in node.bases):
            names = self.whole_names(node)
            self.file.subclasses |= names
            methods = [each.name.value for each in node.body.body if isinstance(each, cst.FunctionDef)]
            if "__init__" not in methods:
                self.file.constructors |= names
            self.file.servers |= {f"{name}.self" for name in names}

    # Values and annotations of names

    def visit_Assign(self, node: cst.Assign) -> None:
        """Record the value of a name."""
        for target in node.targets:
            self._record_value(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        """Record the value of a name, and its annotation."""
        if node.value is not None:
            self._record_value(node.target, node.value)
        self._record_annotation(node.target, node.annotation)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        """Record the value of a name."""
        self._record_value(node.target, node.value)

    def visit_Param(self, node: cst.Param) -> None:
        """Record parameters that are servers and Contexts."""
        if node.annotation is not None:
            self._record_annotation(node.name, node.annotation)
        elif node.name.value in USUAL_CONTEXTS:
            self.file.contexts |= self.whole_names(node.name)

    def _record_annotation(self, target: cst.BaseExpression, annotation: cst.Annotation) -> None:
        if self._is(annotation, SERVER_CLASSES):
            self.file.servers |= self.whole_names(target)
        elif self._is(annotation, CONTEXT_CLASSES):
            self.file.contexts |= self.whole_names(target)

    def _is(self, node: cst.CSTNode, classes: Collection[str]) -> bool:
        """Return True if an annotation contains a class, quoted or not."""
        for each in nodes_in(node):
            if isinstance(each, cst.Name | cst.Attribute) and not self.whole_names(each).isdisjoint(classes):
                return True
            if isinstance(each, cst.SimpleString):
                native = {RENAMED[name] for name in classes}
                names = {name.rpartition(".")[2] for name in classes}
                names |= {self.file.aliases[name] for name in native if name in self.file.aliases}
                words = (text_of(each) or "").replace("[", " ").replace("|", " ").split()
                if not names.isdisjoint(words):
                    return True
        return False

    def _record_value(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        names = self.whole_names(target)
        if self.is_context(value):
            self.file.contexts |= names
        match value:
            case cst.Await(expression=cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=method)))):
                while isinstance(owner, cst.Attribute) and owner.attr.value in {"session", "request_context"}:
                    owner = owner.value
                if method == "create_message":
                    self.file.samples |= names
                elif method in {"elicit", "elicit_url", "elicit_form"} and self.is_context(owner):
                    self.file.elicitations |= names
            case cst.Call(func=function):
                constructor = self.whole_names(function)
                if constructor & (SERVER_CLASSES | self.file.subclasses | self._factories):
                    self.file.servers |= names
                    if constructor & (SERVER_CLASSES | self.file.constructors):
                        self._record_constructor(names, value)
                elif self.method_of_server(function) == "get_context":
                    self.file.contexts |= names
                elif path_of(function) in THREAD_BOUND and not any(
                    each.keyword and each.keyword.value == "check_same_thread" for each in value.args
                ):
                    self.file.in_loop |= names
            case _:
                pass

    def _record_constructor(self, names: set[str], value: cst.Call) -> None:
        arguments = bound(value, ("name", "instructions")) or {}
        served = {name: each.value for name, each in arguments.items() if name in SERVED}
        scopes = {name: self._scopes(value) for name, value in served.items()}
        for name in names:
            self.file.served[name] = served
            self.file.scopes[name] = scopes
            if "transport_security" in arguments:
                self.file.security[name] = arguments["transport_security"].value

    def _scopes(self, value: cst.BaseExpression) -> set[str]:
        """Return the functions that define the names in an expression."""
        names = set[str]().union(*(self.whole_names(each) for each in nodes_in(value)))
        return {name.rpartition(".<locals>.")[0] for name in names if ".<locals>." in name}

    # Registered functions

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Record coroutine functions, and functions with a decorator of a server."""
        names = self.whole_names(node)
        if node.asynchronous is not None:
            self._coroutines |= names
        for decorator in node.decorators:
            function = decorator.decorator
            if isinstance(function, cst.Call):
                function = function.func
            if isinstance(function, cst.Attribute) and self._registers(function):
                self.file.registered |= dict.fromkeys(names, function.attr.value)

    def visit_Call(self, node: cst.Call) -> None:
        """Record functions that are registered without a decorator: `add_tool(f)`, `tool()(f)`."""
        inner = node.func
        server = owner_of(inner.func, "tool") if isinstance(inner, cst.Call) else owner_of(inner, "add_tool")
        if node.args and server is not None and self.is_server(server):
            self.file.registered |= dict.fromkeys(self.whole_names(node.args[0].value), "tool")

    def _registers(self, function: cst.Attribute) -> bool:
        """Return True if `x.tool` belongs to a server; a parameter may have a usual name and no annotation."""
        if function.attr.value not in {*DECORATORS, "completion"}:
            return False
        if self.is_server(function.value):
            return True
        names = self.whole_names(function.value)
        is_usual = isinstance(function.value, cst.Name) and function.value.value in _USUAL_SERVERS
        if is_usual and any(".<locals>." in each for each in names):
            self.file.servers |= names
            return True
        return False

    # Threads

    def visit_Global(self, node: cst.Global) -> None:
        """Record a function that rebinds names of the module."""
        for function in self.functions:
            self.file.in_loop |= function.names

    def visit_Name(self, node: cst.Name) -> None:
        """Record a name that a function uses."""
        self._record_use(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Record an attribute that a function uses."""
        self._record_use(node)

    def _record_use(self, node: cst.Name | cst.Attribute) -> None:
        used = self.whole_names(node) if self.functions else set[str]()
        for function in self.functions:
            for name in function.names - used:
                self._uses.setdefault(name, set()).update(used)

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Follow the uses until no function is added."""
        found = self.file.in_loop | _LOOP_BOUND
        while added := {name for name, used in self._uses.items() if name not in found and used & found}:
            found |= added
        self.file.in_loop = found - _LOOP_BOUND - self._coroutines
        return updated_node
