"""Signed tokens: good ones, generated hostile ones, and TLS certificates."""

from __future__ import annotations

import base64
import hmac
import json
import random
import string
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

ISSUER = "https://id.example.com"


AUDIENCE = "https://mcp.example.com/mcp"


NOW = 1_800_000_000.0


_KINDS = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}


_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519", "Ed25519": "Ed25519"}


class Signer:
    def __init__(self, algorithm: str = "ES256", key_id: str = "one") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.key: Any = _KINDS[algorithm[:2]].generate_key(_CURVES.get(algorithm, 2048))

    def public(self, **more: Any) -> dict[str, Any]:
        members = {
            **self.key.as_dict(private=False),
            "kid": self.key_id,
            "alg": self.algorithm,
            "use": "sig",
            **more,
        }
        return {name: value for name, value in members.items() if value is not None}

    def token(self, claims: Any = None, header: dict[str, Any] | None = None, **changes: Any) -> str:
        payload = claims_of(**changes) if claims is None else claims
        return self.sign(payload if isinstance(payload, bytes) else json.dumps(payload).encode(), header)

    def sign(self, payload: bytes, header: dict[str, Any] | bytes | None = None) -> str:
        if not isinstance(header, bytes):
            members = {"alg": self.algorithm, "kid": self.key_id, "typ": "at+jwt", **(header or {})}
            header = json.dumps(
                {name: value for name, value in members.items() if value is not None}
            ).encode()
        signed = encoded(header) + b"." + encoded(payload)
        model = jws.JWSRegistry.algorithms[self.algorithm]
        return (signed + b"." + encoded(model.sign(signed, self.key))).decode()


def claims_of(**changes: Any) -> dict[str, Any]:
    claims = {
        "iss": ISSUER,
        "sub": "ada",
        "aud": AUDIENCE,
        "exp": NOW + 600,
        "iat": NOW - 60,
        "client_id": "editor",
        "scope": "notes:read notes:write",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


Made = Callable[[random.Random], str]


CANARY = "canary"


class HostileTokens:
    def __init__(
        self, signers: list[Signer], *, issuer: str = ISSUER, audience: str = AUDIENCE, now: float = NOW
    ) -> None:
        self.signers = signers
        self.strangers = [Signer(each.algorithm, each.key_id) for each in signers]
        self.issuer = issuer
        self.audience = audience
        self.now = now

    def tokens(self, seed: int, count: int) -> Iterator[tuple[str, str]]:
        chance = random.Random(seed)
        ways: list[Made] = [
            self.algorithm,
            self.confusion,
            self.stranger,
            self.brought_key,
            self.key_name,
            self.type,
            self.id_token,
            self.issuer_claim,
            self.audience_claim,
            self.time,
            self.whose,
            self.scope,
            self.critical,
            self.encoding,
            self.characters,
            self.segments,
            self.duplicates,
            self.json,
            self.signature,
            self.flipped,
            self.long,
        ]
        for number in range(count):
            way = ways[number % len(ways)]
            yield way.__name__, way(chance)

    def claims(self, **changes: Any) -> dict[str, Any]:
        value = {
            "iss": self.issuer,
            "aud": self.audience,
            "exp": self.now + 600,
            "iat": self.now - 60,
            "note": CANARY,
        }
        return claims_of(**{**value, **changes})

    def good(self, chance: random.Random, header: dict[str, Any] | None = None, **changes: Any) -> str:
        return chance.choice(self.signers).token(self.claims(**changes), header)

    def algorithm(self, chance: random.Random) -> str:
        wrong: list[Any] = [
            "none", "None", "NONE", "nOnE", "", None, "HS256", "ES256K", "RS1", "RSA-OAEP", "dir", "rs256",
        ]  # fmt: skip
        wrong += [["ES256"], 7, True, {"alg": "ES256"}, "RS256 ", "\u0000RS256"]
        token = self.good(chance, {"alg": chance.choice(wrong)})
        return token if chance.random() < 0.5 else token.rpartition(".")[0] + "."

    def confusion(self, chance: random.Random) -> str:
        signer = chance.choice(self.signers)
        public = signer.key.as_pem(private=False)
        secrets = [public, public.strip(), json.dumps(signer.public()).encode(), b"", signer.key_id.encode()]
        size = chance.choice(["256", "384", "512"])
        header = {"alg": f"HS{size}", "kid": signer.key_id, "typ": "at+jwt"}
        signed = encoded(json.dumps(header).encode()) + b"." + encoded(json.dumps(self.claims()).encode())
        return (signed + b"." + encoded(hmac.digest(chance.choice(secrets), signed, f"sha{size}"))).decode()

    def stranger(self, chance: random.Random) -> str:
        return chance.choice(self.strangers).token(self.claims())

    def brought_key(self, chance: random.Random) -> str:
        stranger = chance.choice(self.strangers)
        header = chance.choice(
            [
                {"jwk": stranger.public()},
                {"jku": "https://evil.example/keys"},
                {"x5u": "https://evil.example/keys"},
                {"x5c": [base64.b64encode(b"certificate").decode()]},
                {"jwk": stranger.public(), "kid": None},
            ]
        )
        return stranger.token(self.claims(), header)

    def key_name(self, chance: random.Random) -> str:
        names: list[Any] = [
            "../../etc/passwd",
            "' OR 1=1 --",
            "",
            7,
            [],
            {},
            True,
            "x" * 513,
            "\u0000",
            "ONE",
        ]
        names += [other.key_id for other in self.signers]
        stranger = chance.choice(self.strangers)
        return stranger.token(self.claims(), {"kid": chance.choice(names)})

    def type(self, chance: random.Random) -> str:
        types: list[Any] = [
            None,
            "",
            "id_token",
            "dpop+jwt",
            "logout+jwt",
            "application/secevent+jwt",
            "JWE",
            7,
            ["JWT"],
            {},
        ]
        types += ["at+jwt\n", " JWT", "application/application/at+jwt", "oauth-id-jag+jwt", "text/JWT"]
        return self.good(chance, {"typ": chance.choice(types)})

    def id_token(self, chance: random.Random) -> str:
        claim = chance.choice(["nonce", "at_hash", "c_hash", "s_hash"])
        return self.good(chance, {"typ": "JWT"}, **{claim: "n-0S6_WzA2Mj"})

    def issuer_claim(self, chance: random.Random) -> str:
        wrong: list[Any] = [
            None,
            "",
            self.issuer + "/",
            self.issuer.upper(),
            self.issuer + "#",
            " " + self.issuer,
            self.issuer.replace("http", "https", 1)
            if "https" not in self.issuer
            else "http" + self.issuer[5:],
            "https://evil.example",
            [self.issuer],
            {"iss": self.issuer},
            7,
            True,
        ]
        return self.good(chance, iss=chance.choice(wrong))

    def audience_claim(self, chance: random.Random) -> str:
        base = self.audience
        wrong: list[Any] = [
            None,
            "",
            [],
            [[base]],
            {base: True},
            7,
            True,
            [base, 7],
            [base, None],
            base + "x",
            base + "/x",
            base + "?",
            base + "?x",
            base + "#x",
            base.replace("://", "://x@"),
            base.replace("://", "://x."),
            "evil" + base,
            " " + base,
            base + "\u0000",
            base[:-1],
            [base] * 101,
            "*",
        ]
        value = chance.choice(wrong)
        return self.good(chance, aud=value if value != base + "?" else base + "?y")

    def time(self, chance: random.Random) -> str:
        wrong: list[Any] = [
            None,
            "",
            "never",
            True,
            [],
            {},
            -1,
            1e300,
            10**500,
            str(int(self.now + 600)),
            "1e10",
        ]
        way = chance.randrange(4)
        if way == 0:
            return self.good(chance, exp=chance.choice([*wrong, 0, self.now - chance.uniform(6, 1e9)]))
        if way == 1:
            bad = [each for each in wrong if each is not None]
            return self.good(chance, **{chance.choice(["nbf", "iat"]): chance.choice(bad)})
        if way == 2:
            return self.good(chance, **{chance.choice(["nbf", "iat"]): self.now + chance.uniform(6, 1e9)})
        number = chance.choice(
            ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "+1", "0x7fffffff", "1_000"]
        )
        text = json.dumps(self.claims(exp="HERE")).replace('"HERE"', number)
        return chance.choice(self.signers).sign(text.encode())

    def whose(self, chance: random.Random) -> str:
        names: list[Any] = ["", 7, True, [], ["ada"], {"sub": "ada"}, "x" * 1001]
        changes = chance.choice(
            [
                {"sub": None, "client_id": None},
                {"sub": chance.choice(names)},
                {"client_id": chance.choice(names)},
                {"client_id": None, "azp": chance.choice(names)},
            ]
        )
        return self.good(chance, **changes)

    def scope(self, chance: random.Random) -> str:
        wrong: list[Any] = [7, True, {}, {"a": "b"}, ["a", 7], [["a"]], [None], ["a"] * 1001]
        return self.good(chance, **{chance.choice(["scope", "scp"]): chance.choice(wrong)})

    def critical(self, chance: random.Random) -> str:
        headers: list[dict[str, Any]] = [
            {"crit": ["exp"], "exp": self.now + 600},
            {"crit": []},
            {"crit": ["b64"], "b64": False},
            {"b64": False},
            {"b64": True},
            {"crit": "none"},
            {"crit": {}},
            {"crit": ["http://evil.example/ext"]},
        ]
        return self.good(chance, chance.choice(headers))

    def encoding(self, chance: random.Random) -> str:
        parts = self.good(chance).split(".")
        index = chance.randrange(3)
        part = parts[index]
        standard = part.replace("-", "+").replace("_", "/")
        choices = [
            part + "=",
            part + "==",
            "=" + part,
            part + "A",
            part + " ",
            "\n" + part,
            part[:9] + "." + part[9:],
        ]
        choices += [part[:5] + "\u00e9" + part[5:], part + "%3D", part[:-1], part.swapcase()]
        if standard != part:
            choices.append(standard)
        last = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
        if len(part) % 4 in {2, 3}:  # the bits at the end that stand for nothing
            at = last.index(part[-1])
            choices.append(part[:-1] + last[at ^ 1])
        parts[index] = chance.choice(choices)
        return ".".join(parts)

    def characters(self, chance: random.Random) -> str:
        token = self.good(chance)
        wrong = [
            "\x00", "\u2028", "\uff0e", "\ud800", "\u0430", "\U0001f511", "~", "!", '"', "\\", "\t", "%", "+",
            "/", ",",
        ]  # fmt: skip
        at = chance.randrange(len(token) + 1)
        return token[:at] + chance.choice(wrong) + token[at:]

    def segments(self, chance: random.Random) -> str:
        head, body, tail = self.good(chance).split(".")
        whole = {"protected": head, "payload": body, "signature": tail}
        return chance.choice(
            [
                "",
                ".",
                "..",
                "....",
                head,
                f"{head}.{body}",
                f"{head}.{body}.",
                f".{body}.{tail}",
                f"{head}..{tail}",
                f"{head}.{body}.{tail}.",
                f"{head}.{body}.{tail}.{tail}",
                f"{head}.{body}.{tail}.{tail}.{tail}",
                f"{body}.{head}.{tail}",
                f"{head}.{head}.{tail}",
                f"{head}{body}{tail}",
                json.dumps(whole),
                json.dumps({"payload": body, "signatures": [{"protected": head, "signature": tail}]}),
                "".join(chance.choices(string.ascii_letters + string.digits, k=chance.randrange(1, 80))),
                "x" * 5000,
            ]
        )

    def duplicates(self, chance: random.Random) -> str:
        signer = chance.choice(self.signers)
        claims = json.dumps(self.claims())[1:-1]
        twice = [
            b'"iss":"https://evil.example"', b'"aud":"evil"', b'"exp":1', b'"sub":"eve"', b'"scope":"admin"',
            b'"\\u0073ub":"eve"',
        ]  # fmt: skip
        if chance.random() < 0.3:
            head = json.dumps({"alg": signer.algorithm, "kid": signer.key_id, "typ": "at+jwt"})[1:-1].encode()
            more = chance.choice([b'"alg":"none"', b'"typ":"JWT"', b'"kid":"other"', b'"\\u0061lg":"none"'])
            pair = [head, more] if chance.random() < 0.5 else [more, head]
            return signer.sign(json.dumps(self.claims()).encode(), b"{" + b",".join(pair) + b"}")
        pair = [claims.encode(), chance.choice(twice)]
        if chance.random() < 0.5:
            pair.reverse()
        return signer.sign(b"{" + b",".join(pair) + b"}")

    def json(self, chance: random.Random) -> str:
        good = json.dumps(self.claims())
        depth = chance.choice([250, 1000, 1500])
        bodies = [
            b"",
            b"null",
            b"[]",
            b'"text"',
            b"7",
            b"[" + good.encode() + b"]",
            good.encode() + b"x",
            good.encode() + good.encode(),
            good.encode()[:-1],
            good.replace('"', "'").encode(),
            good.encode("utf-16"),
            good.encode("utf-16-le"),
            b"\xef\xbb\xbf" + good.encode(),
            good[:-1].encode() + b',"a":"\xff\xfe"}',
            good[:-1].encode() + b',"a":"\\ud800"}',
            good[:-1].encode() + b',"a":"\xed\xa0\x80"}',
            good[:-1].encode() + b',"a":' + b"[" * depth + b"]" * depth + b"}",
            good[:-1].encode() + b',"a":' + b'{"b":' * depth + b"1" + b"}" * depth + b"}",
            good[:-1].encode() + b',"a":' + b"9" * 5000 + b"}",
            good[:-1].encode() + b",}",
            good[:-1].encode() + b',"a":1e999}',
            good[:-1].encode() + b"/* comment */}",
            good[:-1].encode() + b',"a":"\x00"}',
        ]
        return chance.choice(self.signers).sign(chance.choice(bodies))

    def signature(self, chance: random.Random) -> str:
        signer = chance.choice(self.signers)
        signed, _, tail = signer.token(self.claims()).rpartition(".")
        real = base64.urlsafe_b64decode(tail + "==")
        other = signer.token(self.claims(sub="eve")).rpartition(".")[2]
        wrong = [
            bytes(len(real)),
            b"\xff" * len(real),
            real[:-1],
            real + b"\x00",
            real[::-1],
            b"\x00" + real,
            real + real,
            b"0",
        ]
        return f"{signed}.{chance.choice([*(encoded(each).decode() for each in wrong), other])}"

    def flipped(self, chance: random.Random) -> str:
        token = self.good(chance)
        places = [place for place, each in enumerate(token) if each != "."]
        at = chance.choice(places)
        letters = (string.ascii_letters + string.digits + "-_").replace(token[at], "")
        return token[:at] + chance.choice(letters) + token[at + 1 :]

    def long(self, chance: random.Random) -> str:
        way = chance.randrange(3)
        if way == 0:
            return self.good(chance, more="x" * 16_384)
        if way == 1:
            return self.good(chance, {"more": "x" * 16_384})
        return "eyJ" + "x" * chance.randrange(16_384, 100_000)


class CertificateAuthority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        own = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.file = folder / "authority.pem"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def certificate(self, name: str, password: str | None = None) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName(name)])
        signed = self._signed(subject, key, names)
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return files

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(timezone.utc)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(signer, critical=False)
            .add_extension(_may_sign(certificates=key is self._key), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _may_sign(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )
