"""The scenarios of the official suites on authorization, each with the client, at each revision that it is for.

Nothing is taken from the lists of the suites but names and revisions, so that none of them is forgotten.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

import pytest

from tests.conformance.client_suite import NEW, OLD, Run, problems_of, suite

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
    ),
    pytest.mark.long,
]

BOTH = ["2025-11-25", "2026-07-28"]
LATEST = ["2026-07-28"]
OLDEST = ["2025-03-26"]
SINCE_2025 = {
    "auth/metadata-default": BOTH,
    "auth/metadata-var1": BOTH,
    "auth/metadata-var2": BOTH,
    "auth/metadata-var3": BOTH,
    "auth/basic-cimd": BOTH,
    "auth/scope-from-www-authenticate": BOTH,
    "auth/scope-from-scopes-supported": BOTH,
    "auth/scope-omitted-when-undefined": BOTH,
    "auth/scope-step-up": BOTH,
    "auth/scope-retry-limit": BOTH,
    "auth/token-endpoint-auth-basic": ["2025-06-18", *BOTH],
    "auth/token-endpoint-auth-post": ["2025-06-18", *BOTH],
    "auth/token-endpoint-auth-none": ["2025-06-18", *BOTH],
    "auth/pre-registration": BOTH,
}
SINCE_2026 = {
    "auth/resource-mismatch": LATEST,
    "auth/offline-access-scope": LATEST,
    "auth/offline-access-not-supported": LATEST,
    "auth/authorization-server-migration": LATEST,
    "auth/iss-supported": LATEST,
    "auth/iss-not-advertised": LATEST,
    "auth/iss-supported-missing": LATEST,
    "auth/iss-wrong-issuer": LATEST,
    "auth/iss-unexpected": LATEST,
    "auth/iss-normalized": LATEST,
    "auth/metadata-issuer-mismatch": LATEST,
}
LEGACY = {
    "auth/2025-03-26-oauth-metadata-backcompat": OLDEST,
    "auth/2025-03-26-oauth-endpoint-fallback": OLDEST,
}
EXTENSIONS = {
    f"auth/{name}": [""]
    for name in (
        "client-credentials-jwt",
        "client-credentials-basic",
        "enterprise-managed-authorization",
        "dpop",
        "dpop-nonce",
        "wif-jwt-bearer",
    )
}
"""Which the suite judges at the revision that it speaks first."""
OF_OLD = [
    *SINCE_2025,
    *LEGACY,
    *(name for name in SINCE_2026 if "iss" not in name and "migration" not in name),
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
]

RUNS = [
    *(Run(OLD, name) for name in OF_OLD),
    *(
        Run(NEW, name, revision)
        for name, revisions in {**SINCE_2025, **SINCE_2026, **LEGACY, **EXTENSIONS}.items()
        for revision in revisions
    ),
]


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_client_authorization_suite_has_no_failure_or_warning(run: Run, tmp_path: Path) -> None:
    assert problems_of(run, tmp_path) == []


@lru_cache
def listed(package: str) -> dict[str, str]:
    told = suite(package, "list", "--client").stdout
    return dict(re.findall(r"^  - (auth/\S+) \[(.*)\]$", told, re.MULTILINE))


@pytest.mark.parametrize("package", [OLD, NEW])
def test_all_authorization_scenarios_of_the_suites_run(package: str) -> None:
    wanted = {
        Run(package, name, revision)
        for name, revisions in listed(package).items()
        for revision in ([""] if package == OLD or revisions == "extension" else revisions.split(","))
    }
    assert wanted == {run for run in RUNS if run.suite == package}
