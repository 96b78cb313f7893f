"""Writes the catalogue of messages, `docs/reference/messages.md`: what the package raises and logs, by module.

python bench/house/messages.py            # writes the page
python bench/house/messages.py --check    # exits with 1 where the page is out of date
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from plain import PACKAGE, ROOT

PAGE: Final = ROOT / "docs" / "reference" / "messages.md"
LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
UNNAMED: Final = frozenset({"iter", "list", "max", "min", "next", "repr", "set", "sorted", "str", "tuple"})
"""Functions that do not change which value a message has."""
DIRECTIVE: Final = re.compile(r"%[\d.]*[srdfgo]")
LEFT_OUT: Final = ("compat/",)
"""Packages with the texts of other SDKs."""

HEAD: Final = """# Messages

The messages of exceptions, logs and warnings, by the module that writes them. `{name}` stands for a value.
`make house` writes this page from the code. A message says what is wrong, where, and what to do.
"""


class Text(NamedTuple):
    """One message.

    Attributes:
        kind: The exception, or `log` with the level, or `warning`.
        text: The message.
    """

    kind: str
    text: str


def text_of(node: ast.expr) -> str:
    """Return the text of an expression, with `{...}` for what is known at run time only."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) for part in parts)
        case ast.FormattedValue(value=value):
            return "{" + placeholder(value) + "}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return text_of(left)
        case ast.IfExp(body=body):
            return text_of(body)
        case ast.Call(func=ast.Name(id="missing_package"), args=[purpose, package, _]):
            return f"{text_of(purpose)} needs {text_of(package)}. Run: {{install_command}}"
        case _:
            return "{" + placeholder(node) + "}"


def placeholder(node: ast.expr) -> str:
    """Return a short name for a value in a message."""
    match node:
        case ast.Call(func=ast.Attribute(attr="join"), args=[value]) | ast.Subscript(value=value):
            return placeholder(value)
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
        case ast.Call(func=ast.Name(id="len"), args=[value]):
            return f"number of {placeholder(value)}"
        case ast.Call(func=ast.Name(id=("map" | "partial")), args=[_, value, *_]):
            return placeholder(value)
        case ast.Call(func=ast.Name(id=function), args=[value, *_]) if function in UNNAMED:
            return placeholder(value)
        case _:
            pass
    name = re.sub(r"^self\.|\(.*|\[.*", "", ast.unparse(node), flags=re.DOTALL)
    return name.rpartition(".")[2].strip("_") if name.isidentifier() or "." in name else "..."


def filled(text: str, values: list[ast.expr]) -> str:
    """Return a text with placeholders for the values of its `%` directives, `{...}` for an unknown one."""
    names = iter([placeholder(value) for value in values])
    return re.sub(DIRECTIVE, lambda _: "{" + next(names, "...") + "}", text).replace("%%", "%")


def texts(tree: ast.Module) -> Iterator[Text]:
    """Yield the messages of a module in order."""
    for node in ast.walk(tree):
        kind: str | None = None
        arguments: list[ast.expr] = []
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind, arguments = ast.unparse(node.exc.func).rpartition(".")[2], node.exc.args
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            if "log" in ast.unparse(node.func.value).lower():
                kind, arguments = f"log {node.func.attr}", node.args
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            kind, arguments = "warning", node.args
        if kind is None or (kind.islower() and kind.startswith("_")):
            continue
        for argument in arguments[:2]:
            text = filled(text_of(argument), arguments[1:] if kind.startswith("log") else [])
            if len(re.sub(r"{[^}]*}", "", text).split()) >= 3:
                yield Text(kind, " ".join(text.split()))
                break


def escaped(text: str) -> str:
    """Return a message as a cell of a table in Markdown."""
    return text.replace("|", r"\|").replace("<", "&lt;")


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith(LEFT_OUT):
            continue
        found = dict.fromkeys(texts(ast.parse(path.read_text("utf-8"))))
        if found:
            name = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            rows = [f"| `{kind}` | {escaped(text)} |" for kind, text in found]
            parts.append("\n".join([f"## mcpkit.{name}\n", "| kind | message |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


def main() -> int:
    """Write or check the page."""
    text = page()
    if "--check" in sys.argv:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
