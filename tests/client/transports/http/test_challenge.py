"""What `WWW-Authenticate` says."""

from __future__ import annotations

import time

import pytest

from mcpkit.client.transports.http.challenge import in_words, read_challenges


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], []),
        ([""], []),
        (["Basic"], [("Basic", {})]),
        (['Basic realm="a, b"'], [("Basic", {"realm": "a, b"})]),
        (['Bearer realm = "a\\"b\\\\c" , SCOPE=read'], [("Bearer", {"realm": 'a"b\\c', "scope": "read"})]),
        (
            ['Bearer error="invalid_token", Basic realm="x"'],
            [("Bearer", {"error": "invalid_token"}), ("Basic", {"realm": "x"})],
        ),
        (["Negotiate", 'Bearer scope="a b"'], [("Negotiate", {}), ("Bearer", {"scope": "a b"})]),
        (["Negotiate a87421000492aa874209af8bc028==, Bearer"], [("Negotiate", {}), ("Bearer", {})]),
        (["Digest a=1, a=2,, ,b=3"], [("Digest", {"a": "1", "b": "3"})]),
        (['Bearer realm="never ended'], [("Bearer", {})]),
        (["=?!"], []),
        (['Bearer realm=""'], [("Bearer", {"realm": ""})]),
    ],
)
def test_challenges_are_read(values: list[str], found: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, dict(each.parameters)) for each in read_challenges(values)] == found


def test_a_challenge_is_said_in_words() -> None:
    challenges = read_challenges(
        [
            (
                'Bearer resource_metadata="https://example.com/.well-known", error="insufficient_scope",'
                ' scope="read write", error_description="more is\nneeded", Basic realm="a"'
            )
        ]
    )
    assert in_words(challenges) == (
        "Bearer, scope 'read write', error 'insufficient_scope', says 'more is needed',"
        " described at 'https://example.com/.well-known'; or Basic, realm 'a'"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    ["a=" * 50_000, 'B a="' + "\\" * 99_999, "B " + "," * 99_999, "x " * 50_000, "B a" + " " * 99_999],
)
def test_hostile_challenges_take_no_time(hostile: str) -> None:
    began = time.process_time()
    in_words(read_challenges([hostile]))
    assert time.process_time() - began < 2
