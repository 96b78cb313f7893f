"""Issuers of multi-tenant providers, by tenant."""

from __future__ import annotations

import re


def entra_issuer(tenant_id: str, authority: str = "https://login.microsoftonline.com") -> str:
    """Return the issuer of a tenant of Microsoft Entra ID.

    Args:
        tenant_id: GUID of the tenant.
        authority: URL of the login service.

    Raises:
        ValueError: `tenant_id` is not a GUID. With `common` and similar values, each token has another issuer.
    """
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", tenant_id):
        raise ValueError(
            f"tenant_id must be the GUID of one Entra tenant, got {tenant_id!r}. For several tenants, pass auth= a list"
        )
    return f"{authority}/{tenant_id.lower()}/v2.0"


def cognito_issuer(user_pool_id: str) -> str:
    """Return the issuer of a user pool of Amazon Cognito.

    Raises:
        ValueError: `user_pool_id` is not the ID of a user pool.
    """
    region = re.fullmatch(r"([a-z]{2}(?:-[a-z]+)+-\d+)_[0-9A-Za-z]+", user_pool_id)
    if region is None or region[1].startswith("cn-"):
        raise ValueError(
            f"user_pool_id must be the ID of a Cognito user pool, such as eu-west-1_abcdefghi, got {user_pool_id!r}"
        )
    return f"https://cognito-idp.{region[1]}.amazonaws.com/{user_pool_id}"


def auth0_issuer(domain: str) -> str:
    """Return the issuer of a tenant of Auth0, which ends with a slash.

    Raises:
        ValueError: `domain` is not a domain name.
    """
    if not re.fullmatch(r"[0-9A-Za-z.-]+", domain):
        raise ValueError(
            f"domain must be that of an Auth0 tenant, such as example.eu.auth0.com, got {domain!r}"
        )
    return f"https://{domain.lower()}/"
