"""Variables in configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.client.targets.variables import Variables

VARIABLES = Variables(Path("/srv/project"), {"key": "The key"})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITY", "Oslo")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("MISSING", raising=False)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("$CITY", "Oslo"),
        ("${CITY}", "Oslo"),
        ("${env:CITY}", "Oslo"),
        ("a${CITY}b$CITY-c", "aOslobOslo-c"),
        ("${MISSING:-Bergen}", "Bergen"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-Bergen}", "Bergen"),
        ("${env:MISSING:-http://a:1/b}", "http://a:1/b"),
        ("${CITY:-Bergen}", "Oslo"),
        ("${EMPTY}", ""),
        ("${workspaceFolder}/a", "/srv/project/a"),
        ("${workspaceFolderBasename}", "project"),
        ("${userHome}", str(Path.home())),
        ("a${/}b${pathSeparator}c", "a/b/c"),
        ("costs 5$, or $5", "costs 5$, or $5"),
        ("^a$|b$", "^a$|b$"),
        ("pa${$}CITY, ${$}{CITY}", "pa$CITY, ${CITY}"),
    ],
)
def test_variables_are_filled_in(text: str, filled: str) -> None:
    assert VARIABLES.fill(text, "here") == filled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "${MISSING}",
            "here: the environment variable MISSING is not set; set it, or write ${MISSING:-default}",
        ),
        (
            "${env:MISSING}",
            "here: the environment variable MISSING is not set; set it, or write ${MISSING:-default}",
        ),
        (
            "pa$MISSING",
            "here: the environment variable MISSING is not set; set it; if no variable is meant, write ${$}",
        ),
        ("${input:key}", "here: ${input:key} (The key) is what an editor asks its user for"),
        ("${input:other}", "here: ${input:other} is what an editor asks its user for"),
        ("${command:pick}", "here: ${command:pick} is not known here; known are ${NAME}, ${env:NAME}"),
        ("${}", "here: ${} is not known here"),
        (
            "${MISSING:-${CITY}}",
            "here: the default of ${MISSING} holds another variable, which is not looked up",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="here") as raised:
        VARIABLES.fill(text, "here")
    assert str(raised.value).startswith(message)
    assert "Oslo" not in str(raised.value)
