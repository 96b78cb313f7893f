"""URI templates: matching as the inverse of expansion by RFC 6570, and refused templates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils.exceptions import RegistrationError
from mcpkit.content.uri_templates import UriTemplate
from tests.helpers.tables import each_row
from tests.helpers.uri_expansion import expand

MATCHES = [
    ("weather://stations/{id}", "weather://stations/KSEA", {"id": "KSEA"}),
    ("weather://stations/{id}", "weather://stations/New%20York", {"id": "New York"}),
    ("weather://stations/{id}", "weather://stations/New York", {"id": "New York"}),
    ("weather://stations/{id}", "weather://stations/", None),
    ("weather://stations/{id}", "weather://stations/a/b", None),
    ("weather://stations/{id}", "weather://stations/KSEA\n", {"id": "KSEA\n"}),
    ("weather://stations/{id}/now", "weather://stations/KSEA/now\n", None),
    # An escape is decoded once: %2541 is the text %41.
    ("a://{x}", "a://50%2541", {"x": "50%41"}), ("a://{x}", "a://%C3%A9t%C3%A9", {"x": "\u00e9t\u00e9"}),
    ("a://{x}", "a://\u00e9t%C3%A9", {"x": "\u00e9t\u00e9"}),
    ("a://caf\u00e9/{x}", "a://caf%C3%A9/1", {"x": "1"}), ("a://caf\u00e9/{x}", "a://caf\u00e9/1", {"x": "1"}),
    ("a://{x}", "a://100%", None), ("a://{x}", "a://%zz", None), ("a://{x}", "a://%FF", None),
    ("a://{x}", "a://%C3", None), ("a://{x}", "a://%ED%A0%80", None), ("a://{x}", "a://\ud800", None),
    # A variable ends where the literal after it first occurs; the last one at the end.
    ("a://{name}.{ext}", "a://x.tar.gz", {"name": "x", "ext": "tar.gz"}),
    ("a://{date}-v{n}", "a://2024-01-02-v3", {"date": "2024-01-02", "n": "3"}),
    ("a://{name}-end", "a://the-end-end", {"name": "the-end"}), ("a://{x,y}", "a://1,2", {"x": "1", "y": "2"}),
    ("a://x{.v}", "a://x.1", {"v": "1"}), ("a://{x:3}", "a://abc", {"x": "abc"}),
    ("a://{x:3}", "a://abcd", None),
    # One variable may span slashes; what stands right of it is read from the right.
    ("a://{+path}", "a://b/c.md", {"path": "b/c.md"}),
    ("a://{+path}/edit", "a://a/editor/edit", {"path": "a/editor"}), ("a://{+path}/edit", "a://edit", None),
    ("a://{+path}.md{#section}", "a://a/b.md#1.2-x", {"path": "a/b", "section": "1.2-x"}),
    ("a://{+path}/raw{?q}", "a://a/raw/raw?q=1", {"path": "a/raw", "q": "1"}),
    ("a://{x}-v.x/{y}", "a://a-v.x/b-c", {"x": "a", "y": "b-c"}),
    ("a://{+path}-v.x/{y}", "a://a/b-v.x/b-c", {"path": "a/b", "y": "b-c"}),
    ("a://{+path}/{name}", "a://a/b/c", {"path": "a/b", "name": "c"}),
    ("a://{+path}.{ext}", "a://a/x.tar.gz", {"path": "a/x.tar", "ext": "gz"}),
    ("a://{host}/{+path}{#line}", "a://h/a/b#7", {"host": "h", "path": "a/b", "line": "7"}),
    ("a://r{/path*}", "a://r/a/b", {"path": ["a", "b"]}), ("a://r{/path*}", "a://r/a//b", None),
    ("a://r{/path*}", "a://r/", None), ("a://r{/path*}", "a://r", None),
    ("a://r{/path*}/raw", "a://r/a/raw/raw", {"path": ["a", "raw"]}),
    ("a://{x*}", "a://1,2,3", {"x": ["1", "2", "3"]}), ("a://www{.x*}/p", "a://www.b.c/p", {"x": ["b", "c"]}),
    # Named parameters are optional, in any order, and no others are allowed.
    ("a://s{?q,n}", "a://s", {}), ("a://s{?q,n}", "a://s?n=1&q=x%26y", {"q": "x&y", "n": "1"}),
    ("a://s{?q,n}", "a://s?q=", {"q": ""}), ("a://s{?q}", "a://s?q=a=b", {"q": "a=b"}),
    ("a://s{?q}", "a://s?r=1", None), ("a://s{?q}", "a://s?q=1&q=1", None), ("a://s{?q}", "a://s?", None),
    ("a://s{?q}", "a://s?q=1&", None), ("a://s{?q*}", "a://s?q=1&q=2", {"q": ["1", "2"]}),
    ("a://s{?q}{&n*}", "a://s?n=1&q=0&n=2", {"q": "0", "n": ["1", "2"]}),
    ("a://s{?q}{&n}", "a://s&n=1", {"n": "1"}), ("a://s?v=1{&q}", "a://s?v=1&q=2", {"q": "2"}),
    ("a://s?v={v}{&q}", "a://s?v=1&q=2", {"v": "1", "q": "2"}),
    ("a://{+path}{?q}", "a://b/c?q=1", {"path": "b/c", "q": "1"}),
    ("a://s{?q}{#f}", "a://s?q=1#x?y", {"q": "1", "f": "x?y"}),
    ("a://m{;x,y}/p", "a://m;y=2;x=1/p", {"x": "1", "y": "2"}), ("a://m{;x,y}/p", "a://m;x/p", {"x": ""}),
    ("a://m{;x}{;y}", "a://m;x=1;y=2", {"x": "1", "y": "2"}),
    ("a://m{;x}{?q}", "a://m;x=1?q=2", {"x": "1", "q": "2"}),
    ("a://{+path}{;x}", "a://b/c;x=1", {"path": "b/c", "x": "1"}),
]  # fmt: skip


@each_row(("template", "uri", "values"), MATCHES)
def test_template_match(template: str, uri: str, values: dict[str, str | list[str]] | None) -> None:
    assert UriTemplate(template).match(uri) == values


TRAVERSALS = [
    ("f://{x}", "f://.."), ("f://{x}", "f://%2e%2E"), ("f://{x}", "f://a%2Fb"), ("f://{x}", "f://a%5Cb"),
    ("f://{x}", "f://a\\b"), ("f://{x}", "f://a%00"), ("f://{x}", "f://C:"), ("f://{x}", "f://c%3Afile"),
    # Windows takes dots and spaces from the end of a name.
    ("f://{x}", "f://..%20."), ("f://{+x}", "f://../etc/passwd"), ("f://{+x}", "f://a/../b"),
    ("f://{+x}", "f://a/.."), ("f://{+x}", "f://a/%2e./b"), ("f://{+x}", "f:///etc/passwd"),
    ("f://{+x}", "f://%2Fetc/passwd"), ("f://{+x}", "f://C:/Windows"), ("f://{+x}", "f://a/b%00.txt"),
    ("f://r{/x*}", "f://r/a/../b"), ("f://r{/x*}", "f://r/a%2F..%2Fb"), ("f://r{/x*}", "f://r/a/C:/b"),
    ("f://r{?x}", "f://r?x=../b"), ("f://r{?x}", "f://r?x=%2Fetc"), ("f://r{?x*}", "f://r?x=a&x=.."),
    ("f://r{;x}", "f://r;x=.."), ("f://r{#x}", "f://r#a/../b"), ("f://r{.x}", "f://r..."),
]  # fmt: skip


@each_row(("template", "uri"), TRAVERSALS)
def test_template_path_traversal_needs_unsafe(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None
    assert UriTemplate(template, unsafe={"x"}).match(uri) is not None
    assert UriTemplate(template, unsafe=True).match(uri) is not None


REFUSED = [
    ("a://{x", "position 4.* never closed"), ("a://x}", "position 5.* never opened"),
    ("a://{{x}}", "position 4.* never closed"), ("a://{}", "position 4 is not an expression"),
    ("a://{=x}", "is not an expression"), ("a://{x y}", "is not an expression"), ("a://{x:0}", "is not an expression"),
    ("a://{x:10000}", "not an expression"), ("a://{x*:3}", "not an expression"), ("a://{x,}", "is not an expression"),
    ("a://{.x.}", "is not an expression"), ("a://b c/{x}", "' ' at position 5 must be percent-encoded"),
    ("a://\ud800/{x}", "must be percent-encoded"),
    ("a://100%/{x}", "'%' at position 7 must be percent-encoded"),
    ("a://{x}{y}", '"x" and "y" are adjacent'), ("a://{x}{+y}", "are adjacent"),
    ("a://{+x}/{+y}", '"x" and "y" may all match slashes'), ("a://{+x,y}", "may all match slashes"),
    ("a:/{/x*}/b{/y*}", "may all match slashes"), ("a://{x}/{x}", '"x" occurs twice'),
    ("a://{x*},{y}", 'the list "x" has "," next to it'), ("a://{+p}{.x*}", 'the list "x" has "." next to it'),
    ("a://b{?x}c", "may follow a query"), ("a://b{?x}{y}", "may follow a query"),
    ("a://b{?x}{?y}", "Put all its names in one"), ("a://b{;x}c", "must begin with"),
    ("a://b{;x}{y}", "must begin with"), ("a://{+x*}", "items .* may contain the separating comma"),
    ("a://b{#x*}", "items .* may contain the separating comma"),
]  # fmt: skip


@each_row(("template", "message"), REFUSED)
def test_template_ambiguous_is_refused(template: str, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        UriTemplate(template)


@each_row(("template", "uri"), [
    ("a://{x}-v{y}/z", "a://" + "-" * 1_000_000), ("a://{+x}-{y}.{z}", "a://" + "-a." * 300_000 + "/"),
    ("a://{+x}/b/{y}/c/{z}", "a://" + "/b/x/c" * 200_000), ("a://{x}-{y}-{z}-w", "a://" + "-x" * 500_000),
    ("a://r{/x*}/edit", "a://r" + "/edit" * 200_000 + "/"),
    ("a://r{?x*}", "a://r?" + "&".join(["x=1"] * 200_000) + "&y"),
    ("a://{+x}/edit{?y}", "a://" + "/edit?" * 150_000 + "#"),
    ("a://{+x}/edit{&y}", "a://" + "/edit&" * 150_000 + "#"),
    ("a://{x}-e{;y}", "a://" + "-e;" * 300_000 + "/"), ("a://{+x}-e{;y}", "a://" + "-e;" * 300_000 + "/"),
    ("a://{+x}aaaa{y}", "a://" + "a" * 1_000_000 + "/"),
    ("a://{+x}.md{#y}", "a://" + ".md#" * 250_000 + "#"), ("a://{x}", "a://" + "%41" * 300_000 + "%"),
    ("a://{+x}", "a://" + "../" * 300_000),
])  # fmt: skip
def test_template_match_is_linear(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


# What each template can carry; with `unsafe=True` only its own rules limit the values.
ROUND_TRIPS = [
    ("a://{x}", {"x": TEXT}), ("a://{x}/{y}/z", {"x": TEXT, "y": TEXT}), ("a://{x,y}", {"x": TEXT, "y": TEXT}),
    ("a://{x}.{y}", {"x": TEXT.filter(lambda text: "." not in text), "y": TEXT}),
    ("a://{x}-v{y}", {"x": TEXT.filter(lambda text: "-" not in text), "y": TEXT}),
    ("a://{+x}", {"x": TEXT.filter(lambda text: "%" not in text)}),
    ("a://{+x}/{y}", {"x": TEXT.filter(lambda text: "%" not in text), "y": TEXT}),
    ("a://r{/x*}", {"x": st.lists(TEXT, min_size=1, max_size=4)}),
    ("a://r{/x*}/z/{y}", {"x": st.lists(TEXT, min_size=1, max_size=4), "y": TEXT}),
    ("a://{x*}", {"x": st.lists(TEXT, min_size=1, max_size=4)}),
    ("a://r{?x,y*}", {"x": TEXT | st.just(""), "y": st.lists(TEXT | st.just(""), min_size=1, max_size=4)}),
    ("a://{x}{?y}{&z}", {"x": TEXT, "y": TEXT, "z": TEXT}),
    ("a://r{;x,y}/z", {"x": TEXT | st.just(""), "y": TEXT}),
    ("a://r{.x}{#y}", {"x": TEXT, "y": TEXT.filter(lambda text: not set(text) & set("%#"))}),
]  # fmt: skip


@given(st.data())
def test_template_match_inverts_expansion(data: st.DataObject) -> None:
    template, strategies = data.draw(st.sampled_from(ROUND_TRIPS))
    values = data.draw(st.fixed_dictionaries(strategies))
    compiled = UriTemplate(template, unsafe=True)
    uri = expand(template, values)
    assert uri.isascii()
    assert compiled.match(uri) == values


@given(
    st.sampled_from([template for template, _ in ROUND_TRIPS]),
    st.text(st.sampled_from("%2fF0.:/?#&;=,-\\rxyzv \0\n") | st.characters(codec=None), max_size=30),
)
def test_template_match_of_any_text(template: str, tail: str) -> None:
    assert isinstance(UriTemplate(template).match("a://" + tail), dict | None)
