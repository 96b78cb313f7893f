"""Signed tokens: good ones, generated hostile ones, and TLS certificates."""

import base64
import hmac
import json
import random
import string
from collections.abc import Iterator
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


CHARACTERS = string.ascii_letters + string.digits + "-_"


_KINDS = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}


_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519", "Ed25519": "Ed25519"}


class Signer:
    def __init__(self, algorithm: str = "ES256", key_id: str = "one") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.key: Any = _KINDS[algorithm[:2]].generate_key(_CURVES.get(algorithm, 2048))

    def public(self, **more: Any) -> dict[str, Any]:
        members = {**self.key.as_dict(private=False), "kid": self.key_id, "alg": self.algorithm, "use": "sig"}
        members |= more
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
        "iss": ISSUER, "sub": "ada", "aud": AUDIENCE, "exp": NOW + 600, "iat": NOW - 60,
        "client_id": "editor", "scope": "notes:read notes:write", **changes,
    }  # fmt: skip
    return {name: value for name, value in claims.items() if value is not None}


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


CANARY = "canary"

Changes = list[dict[str, Any]]


def each(name: str, *values: Any) -> Changes:
    """Return changes of one member."""
    return [{name: value} for value in values]


ALGORITHMS = each("alg", "none", "None", "NONE", "nOnE", "", None, "HS256", "ES256K", "RS1", "RSA-OAEP", "dir",
                  "rs256", ["ES256"], 7, True, {"alg": "ES256"}, "RS256 ", "\0RS256")  # fmt: skip


HEADERS: dict[str, Changes] = {
    "type": each("typ", None, "", "id_token", "dpop+jwt", "logout+jwt", "application/secevent+jwt", "JWE", 7,
                 ["JWT"], {}, "at+jwt\n", " JWT", "application/application/at+jwt", "oauth-id-jag+jwt", "text/JWT"),
    "critical": [*each("crit", [], "none", {}, ["http://evil.example/ext"]), *each("b64", False, True),
                 {"crit": ["exp"], "exp": NOW + 600}, {"crit": ["b64"], "b64": False}],
}  # fmt: skip
"""Headers of tokens that must be rejected, by kind."""


NAMES: list[Any] = ["", 7, True, [], ["ada"], {"sub": "ada"}, "x" * 1001]


TIMES: list[Any] = ["", "never", True, [], {}, -1, 1e300, 10**500, str(int(NOW + 600)), "1e10"]


CLAIMS: dict[str, Changes] = {
    "issuer_claim": each("iss", None, "", ISSUER + "/", ISSUER.upper(), ISSUER + "#", " " + ISSUER, [ISSUER],
                         "http" + ISSUER[5:], "https://evil.example", {"iss": ISSUER}, 7, True),
    "audience_claim": each(
        "aud", None, "", [], [[AUDIENCE]], {AUDIENCE: True}, 7, True, [AUDIENCE, 7], [AUDIENCE, None], "*",
        AUDIENCE + "x", AUDIENCE + "/x", AUDIENCE + "?y", AUDIENCE + "?x", AUDIENCE + "#x", " " + AUDIENCE,
        AUDIENCE.replace("://", "://x@"), AUDIENCE.replace("://", "://x."), "evil" + AUDIENCE, AUDIENCE + "\0",
        AUDIENCE[:-1], [AUDIENCE] * 101),
    "time": [*each("exp", None, 0, NOW - 6, NOW - 1e9, *TIMES), *each("nbf", NOW + 6, NOW + 1e9, *TIMES),
             *each("iat", NOW + 6, NOW + 1e9, *TIMES)],
    "whose": [{"sub": None, "client_id": None}, *each("sub", *NAMES), *each("client_id", *NAMES),
              *({"client_id": None, "azp": name} for name in NAMES)],
    "scope": [change for name in ("scope", "scp") for change in each(
        name, 7, True, {}, {"a": "b"}, ["a", 7], [["a"]], [None], ["a"] * 1001)],
}  # fmt: skip
"""Claims of tokens that must be rejected, by kind."""


DEEP = [opening * depth + b"1" + closing * depth for depth in (250, 1000, 1500)
        for opening, closing in ((b"[", b"]"), (b'{"b":', b"}"))]  # fmt: skip


class HostileTokens:
    """Generated tokens that must be rejected, and claims of good ones."""

    def __init__(self, signers: list[Signer]) -> None:
        self.signers = signers
        self.strangers = [Signer(each.algorithm, each.key_id) for each in signers]

    def tokens(self, seed: int, count: int) -> Iterator[tuple[str, str]]:
        """Generate tokens, each with its kind; all kinds in turn."""
        chance = random.Random(seed)
        methods = [
            *(self.algorithm, self.confusion, self.stranger, self.brought_key, self.key_name, self.id_token),
            *(self.number, self.encoding, self.characters, self.segments, self.duplicates, self.json),
            *(self.signature, self.long),
        ]
        kinds = [*HEADERS, *CLAIMS, *methods]
        for number in range(count):
            kind = kinds[number % len(kinds)]
            if not isinstance(kind, str):
                yield kind.__name__, kind(chance)
            elif kind in HEADERS:
                yield kind, self.good(chance, chance.choice(HEADERS[kind]))
            else:
                yield kind, self.good(chance, **chance.choice(CLAIMS[kind]))

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return good claims."""
        return claims_of(**{"note": CANARY, **changes})

    def good(self, chance: random.Random, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return a token that is good but for these changes."""
        return chance.choice(self.signers).token(self.claims(**changes), header)

    def algorithm(self, chance: random.Random) -> str:
        token = self.good(chance, chance.choice(ALGORITHMS))
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
        keys = [*each("jku", "https://evil.example/keys"), *each("x5u", "https://evil.example/keys")]
        keys += [{"x5c": [base64.b64encode(b"certificate").decode()]}, {"jwk": stranger.public()}]
        return stranger.token(self.claims(), chance.choice([*keys, {"jwk": stranger.public(), "kid": None}]))

    def key_name(self, chance: random.Random) -> str:
        names: list[Any] = ["../../etc/passwd", "' OR 1=1 --", "", 7, [], {}, True, "x" * 513, "\0", "ONE"]
        names += [other.key_id for other in self.signers]
        return chance.choice(self.strangers).token(self.claims(), {"kid": chance.choice(names)})

    def id_token(self, chance: random.Random) -> str:
        claim = chance.choice(["nonce", "at_hash", "c_hash", "s_hash"])
        return self.good(chance, {"typ": "JWT"}, **{claim: "n-0S6_WzA2Mj"})

    def number(self, chance: random.Random) -> str:
        numbers = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "+1", "0x7fffffff", "1_000"]
        text = json.dumps(self.claims(exp="HERE")).replace('"HERE"', chance.choice(numbers))
        return chance.choice(self.signers).sign(text.encode())

    def encoding(self, chance: random.Random) -> str:
        parts = self.good(chance).split(".")
        index = chance.randrange(3)
        part = parts[index]
        choices = [part + "=", part + "==", "=" + part, part + "A", part + " ", "\n" + part, part[:-1]]
        choices += [part[:9] + "." + part[9:], part[:5] + "\u00e9" + part[5:], part + "%3D", part.swapcase()]
        standard = part.replace("-", "+").replace("_", "/")
        choices += [standard] * (standard != part)
        if len(part) % 4 in {2, 3}:  # the bits at the end that stand for nothing
            choices.append(part[:-1] + CHARACTERS[CHARACTERS.index(part[-1]) ^ 1])
        parts[index] = chance.choice(choices)
        return ".".join(parts)

    def characters(self, chance: random.Random) -> str:
        token = self.good(chance)
        at = chance.randrange(len(token))
        wrong = [*'\0\u2028\uff0e\ud800\u0430\U0001f511~!"\\\t%+/,']
        if chance.random() < 0.5:
            return token[:at] + chance.choice(wrong) + token[at:]
        return token[:at] + chance.choice(CHARACTERS.replace(token[at], "")) + token[at + 1 :]

    def segments(self, chance: random.Random) -> str:
        head, body, tail = self.good(chance).split(".")
        whole = {"protected": head, "payload": body, "signature": tail}
        patterns = [
            "", ".", "..", "....", "h", "h.b", "h.b.", ".b.t", "h..t", "h.b.t.", "h.b.t.t", "h.b.t.t.t",
        ]  # fmt: skip
        patterns += ["b.h.t", "h.h.t", "hbt"]
        texts = ["".join({"h": head, "b": body, "t": tail}.get(c, c) for c in each) for each in patterns]
        texts += [json.dumps(whole), json.dumps({"payload": body, "signatures": [whole]}), "x" * 5000]
        return chance.choice([*texts, "".join(chance.choices(CHARACTERS[:-2], k=chance.randrange(1, 80)))])

    def duplicates(self, chance: random.Random) -> str:
        signer = chance.choice(self.signers)
        claims = json.dumps(self.claims())[1:-1].encode()
        twice = [
            b'"iss":"https://evil.example"', b'"aud":"evil"', b'"exp":1', b'"sub":"eve"', b'"scope":"admin"',
        ]  # fmt: skip
        pair, header = [claims, chance.choice([*twice, b'"\\u0073ub":"eve"'])], None
        if chance.random() < 0.3:
            head = json.dumps({"alg": signer.algorithm, "kid": signer.key_id, "typ": "at+jwt"})[1:-1].encode()
            twice = [b'"alg":"none"', b'"typ":"JWT"', b'"kid":"other"', b'"\\u0061lg":"none"']
            pair = [head, chance.choice(twice)]
            header = claims
        if chance.random() < 0.5:
            pair.reverse()
        doubled = b"{" + b",".join(pair) + b"}"
        return signer.sign(doubled) if header is None else signer.sign(b"{" + claims + b"}", doubled)

    def json(self, chance: random.Random) -> str:
        text = json.dumps(self.claims())
        good, start = text.encode(), text[:-1].encode() + b","
        bodies = [
            b"", b"null", b"[]", b'"text"', b"7", b"[" + good + b"]", good + b"x", good + good, good[:-1],
        ]  # fmt: skip
        bodies += [text.replace('"', "'").encode(), text.encode("utf-16"), text.encode("utf-16-le")]
        bodies += [b"\xef\xbb\xbf" + good, start + b"}", start[:-1] + b"/* comment */}"]
        values = [b'"\xff\xfe"', b'"\\ud800"', b'"\xed\xa0\x80"', b"9" * 5000, b"1e999", b'"\0"', *DEEP]
        bodies += [start + b'"a":' + value + b"}" for value in values]
        return chance.choice(self.signers).sign(chance.choice(bodies))

    def signature(self, chance: random.Random) -> str:
        signer = chance.choice(self.signers)
        signed, _, tail = signer.token(self.claims()).rpartition(".")
        real = base64.urlsafe_b64decode(tail + "==")
        size = len(real)
        wrong = [
            bytes(size), b"\xff" * size, real[:-1], real + b"\0", real[::-1], b"\0" + real, real * 2, b"0",
        ]  # fmt: skip
        other = signer.token(self.claims(sub="eve")).rpartition(".")[2]
        return f"{signed}.{chance.choice([*(encoded(each).decode() for each in wrong), other])}"

    def long(self, chance: random.Random) -> str:
        more = {"more": "x" * 16_384}
        texts = [
            self.good(chance, **more),
            self.good(chance, more),
            "eyJ" + "x" * chance.randrange(16_384, 100_000),
        ]
        return chance.choice(texts)


class CertificateAuthority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        own = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.file = folder / "authority.pem"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def certificate(self, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName(name)])
        signed = self._signed(subject, key, names)
        encryption = serialization.NoEncryption()
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
        is_authority = key is self._key  # which signs certificates and revocation lists, and nothing else
        usage = x509.KeyUsage(not is_authority, *(False,) * 4, is_authority, is_authority, *(False,) * 2)
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
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
