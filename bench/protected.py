"""Measures a protected call beside an open one, of mcpkit and its peers in one run: `python bench/protected.py`.

Everybody serves the same tool twice, once open and once with access tokens that are JWTs (RS256), under the same
uvicorn. The same token comes with every request, as a client sends it: mcpkit knows it after the first. The ratio is
taken in each round between neighbours, of the server's processor time for each call that wrk gets answered.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack

import environment
from client import HANDSHAKE, STATELESS
from contenders import Contender
from load import Load, Target
from web_client import Calls, WebServer, take_a_core

ROUNDS = 11
PEOPLE = ("mcpkit", "mcp", "fastmcp")


class Bearing(WebServer):
    """A server that is asked with an access token."""

    token = ""

    def head(
        self, length: int, headers: Mapping[str, str], method: str = "POST", path: str = "/mcp"
    ) -> bytes:
        return super().head(length, {**headers, "Authorization": f"Bearer {self.token}"}, method, path)


class Protected(Load):
    """The load of `load.py`, with a token in each request."""

    def open(self, contender: Contender, stack: ExitStack) -> Target:
        server = stack.enter_context(Bearing(contender, self._mode))
        target = Target(server, Calls(server, self._revision, 32 if self._mode == "sessions" else 0))
        self._run(target, 1)
        return target


def issue() -> tuple[str, str]:
    """Return a token, and the key that it is verified with."""
    import issued
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    now = int(time.time())
    claims = {
        "iss": issued.ISSUER,
        "aud": issued.AUDIENCE,
        "sub": "ada",
        "client_id": "bench",
        "scope": "notes:read notes:write",
        "iat": now,
        "exp": now + 7200,
        "jti": "1",
    }
    token = jwt.encode({"alg": "RS256", "typ": "at+jwt"}, claims, RSAKey.import_key(pem))
    return token, public.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="a CPython, as a version (3.13) or a path")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples of each figure (%(default)s)")
    parser.add_argument("--peer", action="append", help="only these; may be repeated")
    options = parser.parse_args()
    python = str(environment.python_with_peers(environment.interpreter(options.python)))
    take_a_core()
    import issued

    Bearing.token, os.environ[issued.KEY] = issue()
    print(f"{'':34}{'open':>14}{'protected':>14}{'ratio':>9}   least to most")
    for title, revision, mode in (
        (f"{STATELESS}, each call alone", STATELESS, "sessions"),
        (f"{HANDSHAKE}, 32 sessions", HANDSHAKE, "sessions"),
    ):
        for name in options.peer or PEOPLE:
            pair = [Contender(name, python, f"{name}_server"), Contender(name, python, f"{name}_protected")]
            try:
                report(title, name, *measured(pair, revision, mode, options.rounds))
            except Exception as error:
                print(f"{name}, {title}: {error}", file=sys.stderr)


def measured(pair: list[Contender], revision: str, mode: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of the processor for a call, open and protected, in pairs."""
    load = Protected(revision, mode)
    taken: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        targets = [load.open(each, stack) for each in pair]
        for number in range(rounds):
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                taken[index].append(load.sample(targets[index])["processor"])
    return taken


def report(title: str, name: str, opened: list[float], protected: list[float]) -> None:
    ratios = sorted(theirs / ours for ours, theirs in zip(opened, protected, strict=True))
    print(
        f"{f'{name}, {title}':34.60}{statistics.median(opened) * 1e6:11.1f} µs"
        f"{statistics.median(protected) * 1e6:11.1f} µs{statistics.median(ratios):9.3f}"
        f"   {ratios[0]:.3f} to {ratios[-1]:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
