"""Options of the URL of a Redis: `Redis(...)` refuses those that redis-py could not use, and no others."""

from __future__ import annotations

import os
import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Redis

redis = pytest.importorskip("redis.asyncio")

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
NAMES = [
    *("ssl_keyfile", "ssl_certfile", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path"),
    *("ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "ssl_password", "ssl_include_verify_flags"),
]
VALUES = [
    *(
        "none",
        "optional",
        "required",
        "None",
        "CERT_NONE",
        "0",
        "1",
        "true",
        "False",
        "771",
        "772",
        "-1",
        "1e3",
    ),
    *(
        "TLSv1.2",
        "DEFAULT",
        "HIGH:!aNULL",
        "NO-SUCH",
        "/nowhere/ca.pem",
        "%2Fnowhere",
        "[VERIFY_X509_STRICT]",
    ),
    *("VERIFY_X509_STRICT,VERIFY_DEFAULT", "[NO]", "secret%20text", "%FF", "%00", "Ünïcode", "a=b", "+"),
]
names = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from([each[:-1] for each in NAMES]),
    st.from_regex(r"\Assl_[a-z]{1,6}\Z"),
)
values = st.one_of(st.sampled_from(VALUES), st.from_regex(r"\A[\w.:/%+-]{1,12}\Z"))
options = st.dictionaries(names, values, min_size=1, max_size=3)


def can_be_used(url: str) -> bool:
    """Do what redis-py does before it connects; a file that is missing is none of the URL's faults."""
    try:
        pool = redis.ConnectionPool.from_url(url)
        pool.connection_class(**pool.connection_kwargs).ssl_context.get()
    except (ssl.SSLError, TypeError, ValueError, AttributeError, redis.RedisError):
        return False
    except OSError:
        pass
    return True


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(st.sampled_from(["redis://127.0.0.1:1/0", "rediss://127.0.0.1:1/0", "unix:///redis.sock"]), options)
def test_options_are_refused_where_redis_py_could_not_use_them(place: str, options: dict[str, str]) -> None:
    url = f"{place}?{'&'.join(f'{name}={value}' for name, value in options.items())}"
    refusal = None
    try:
        Redis(url)
    except ValueError as error:
        refusal = error
    if refusal is not None:
        is_known_boolean = options.get("ssl_check_hostname", "0").casefold() in {"0", "1", "true", "false"}
        alone = [
            f"{place}?{name}={value}" for name, value in options.items()
        ]  # a missing file hides later options
        assert not all(map(can_be_used, [url, *alone])) or not is_known_boolean, refusal
        assert refusal.__cause__ is None
        assert not any(len(value) > 8 and value in str(refusal) for value in options.values())
    else:
        assert can_be_used(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "redis://h/0?ssl_cert_reqs=none",
            "is for TLS, and redis:// has none. Leave it out, or write rediss://",
        ),
        ("rediss://h/0?ssl_cert_req=none", "does not know the option ssl_cert_req in .*Write ssl_cert_reqs"),
        ("rediss://h/0?ssl_min_version=TLSv1.2", "cannot read the option ssl_min_version .*771 for TLS 1.2"),
        (
            "rediss://h/0?ssl_cert_reqs=no",
            "cannot read the option ssl_cert_reqs .*none, optional or required",
        ),
        ("rediss://h/0?ssl_check_hostname=off", "cannot read the option ssl_check_hostname .*true or false"),
        ("rediss://h/0?ssl_ca_certs=", "the option ssl_ca_certs in the URL of a Redis has no value"),
        ("redis://h?db=1&db=2", "has the option db twice"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_with_the_cure(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Redis(url)
