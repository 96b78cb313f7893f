"""Ten edits of the server that `mcpkit new` writes, as somebody makes them in a day."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Edit:
    """An edit, and the call that shows it.

    Attributes:
        what: What is done.
        tool: The tool that is called afterwards.
        arguments: What it is given.
        answer: What it answers; empty where the file is broken.
        changes: Texts of the file, and what comes in their place.
        added: What comes to the end of the file.
        is_seen_in_lists: Whether a host has to list the tools again to make the call.
    """

    what: str
    tool: str
    arguments: dict[str, object]
    answer: str
    changes: dict[str, str] = field(default_factory=dict)
    added: str = ""
    is_seen_in_lists: bool = False

    def applied_to(self, code: str) -> str:
        """Return the file as it is after this."""
        for before, after in self.changes.items():
            assert code.count(before) == 1, f"{before!r} is not once in the file"
            code = code.replace(before, after)
        return code + self.added


SIGN_IN = '''

@server.tool
def sign_in(name: str) -> str:
    """Write down who has come.

    Args:
        name: Who it is.
    """
    return f"{name} is in"
'''
MINUTES = '''

@server.tool(annotations={"readOnlyHint": True})
def minutes(start: str, end: str) -> int:
    """Count the minutes between two times of a day.

    Args:
        start: From when, such as 09:30.
        end: Until when, such as 11:00.
    """
    first, last = (int(time[:2]) * 60 + int(time[3:]) for time in (start, end))
    return last - first
'''
BADGE = '''

@dataclass
class Badge:
    """What a visitor wears."""

    line: str


@server.tool(annotations={"readOnlyHint": True})
async def badge(name: str) -> Badge:
    """Make a badge.

    Args:
        name: Who wears it.
    """
    return Badge(name.upper())
'''

EDITS = [
    Edit(
        "greet says more in French",
        "greet",
        {"name": "Ada", "language": "fr"},
        "Bienvenue, Ada!",
        {"Bonjour": "Bienvenue"},
    ),
    Edit(
        "a new tool, sign_in, and greet says Moin in German",
        "sign_in",
        {"name": "Ada"},
        "Ada is in",
        {"Guten Tag": "Moin"},
        SIGN_IN,
        is_seen_in_lists=True,
    ),
    Edit(
        "sign_in has one more argument, room",
        "sign_in",
        {"name": "Ada", "room": "library"},
        "Ada is in the library",
        {
            "def sign_in(name: str)": 'def sign_in(name: str, room: str = "hall")',
            "        name: Who it is.\n": "        name: Who it is.\n        room: Where to.\n",
            '{name} is in"': '{name} is in the {room}"',
        },
        is_seen_in_lists=True,
    ),
    Edit(
        "sign_in says it in other words",
        "sign_in",
        {"name": "Eve", "room": "hall"},
        "Welcome to the hall, Eve",
        {'{name} is in the {room}"': 'Welcome to the {room}, {name}"'},
    ),
    Edit(
        "a new tool, minutes",
        "minutes",
        {"start": "09:30", "end": "11:00"},
        "90",
        added=MINUTES,
        is_seen_in_lists=True,
    ),
    Edit(
        "a slip: the end of the line in minutes is lost",
        "minutes",
        {"start": "23:30", "end": "00:15"},
        "",
        {"return last - first": "return (last - first"},
    ),
    Edit(
        "mended, and minutes goes past midnight",
        "minutes",
        {"start": "23:30", "end": "00:15"},
        "45",
        {"return (last - first": "return (last - first) % 1440"},
    ),
    Edit(
        "a new tool that is async and has fields, badge",
        "badge",
        {"name": "Ada"},
        "ADA",
        added=BADGE,
        is_seen_in_lists=True,
    ),
    Edit(
        "the answer of badge has one more field",
        "badge",
        {"name": "Ada"},
        "visitor",
        {
            "line: str\n\n\n@server": "line: str\n    role: str\n\n\n@server",
            "name.upper())": 'name.upper(), "visitor")',
        },
        is_seen_in_lists=True,
    ),
    Edit(
        "greet is short in French",
        "greet",
        {"name": "Eve", "language": "fr"},
        "Salut, Eve!",
        {"Bienvenue": "Salut"},
    ),
]

UNNOTICED = ("greet", {"name": "Ada", "language": "de"}, "Moin, Ada!")
"""A call that shows that the second edit is there, to a host that has not listed the tools again."""
