"""Imports that no declared dependency brings, in projects generated from ways to import and kinds of modules."""

from __future__ import annotations

import os
import random
from pathlib import Path

from mcpkit.cli.packing.imports import undeclared

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))

DECLARED = ("mcpkit[client]", "packaging", "no-such-distribution>=1; python_version < '3'")
BROUGHT = ("json", "os.path", "mcpkit", "packaging.version", "pydantic", "starlette.routing", "httpx2", "own")
NOT_BROUGHT = {"hypothesis": "hypothesis", "PIL.Image": "pillow", "no_such_module": None, "redis": "redis"}

REQUIRED = (
    "import {0}\n",
    "import json, {0} as it\n",
    "from {0} import something\n",
    "def function():\n    import {0}\n",
    "class Kind:\n    from {0} import *\n",
    "if True:\n    with open('x'):\n        import {0}\n",
    "try:\n    pass\nfinally:\n    import {0}\n",
    "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import {0}\n",
    "if TYPE_CHECKING:\n    pass\nelse:\n    import {0}\n",
)
OPTIONAL = (
    "try:\n    import {0}\nexcept ImportError:\n    pass\n",
    "if TYPE_CHECKING:\n    import {0}\n",
    "if typing.TYPE_CHECKING:\n    from {0} import x\n",
    "x = 'import {0}'\n",
)
LINKS = {
    "flat": (
        "server.py",
        "helper.py",
        ("import helper\n", "from helper import *\n", "def f():\n    import helper\n"),
    ),
    "package": (
        "shop/server.py",
        "shop/parts/helper.py",
        ("from .parts import helper\n", "from shop.parts.helper import x\n", "import shop.parts.helper\n"),
    ),
}


def test_undeclared_imports_are_found_wherever_the_server_comes_to(tmp_path: Path) -> None:
    chance = random.Random(723)
    for number in range(EXAMPLES):
        entry_name, helper_name, links = LINKS[chance.choice(list(LINKS))]
        root = tmp_path / str(number)
        texts = {entry_name: "", helper_name: "", "unused.py": "import hypothesis\n", "own.py": ""}
        is_linked = chance.random() < 0.7
        if is_linked:
            texts[entry_name] += chance.choice(links)
        wanted: set[tuple[str, str | None]] = set()
        for _ in range(chance.randint(0, 4)):
            module = chance.choice([*BROUGHT, *NOT_BROUGHT])
            is_required = chance.random() < 0.6
            place = chance.choice([entry_name, helper_name])
            texts[place] += chance.choice(REQUIRED if is_required else OPTIONAL).format(module)
            if is_required and module in NOT_BROUGHT and (place == entry_name or is_linked):
                wanted.add((module.partition(".")[0], NOT_BROUGHT[module]))
        for name, text in texts.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            for folder in {*file.parents} - {root, *root.parents}:
                (folder / "__init__.py").touch()
            file.write_text(text)
        found = undeclared(root / entry_name, root, sorted(root.rglob("*.py")), DECLARED)
        assert {(each.module, each.distribution) for each in found} == wanted, texts


def test_a_dependency_that_is_not_installed_may_bring_a_module_that_is_not(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text("import no_such_module\nimport redis\nimport __main__\n")
    found = undeclared(file, tmp_path, [file], ["no-such-distribution"])
    assert [(each.module, each.line) for each in found] == [("redis", 2)]
    assert undeclared(file, tmp_path, [file], ["no-such-module", "redis"]) == []
