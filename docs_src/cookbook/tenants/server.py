import sqlite3
from collections.abc import Iterator
from typing import Annotated

from mcpkit import Context, Depends, Server, ToolError

server = Server("crm", version="1.0.0")

MEMBERS = {"ada": "acme", "bob": "globex"}  # stands for a table of users


def tenant_of_user(ctx: Context) -> str:
    """Return the tenant of the authenticated user."""
    tenant = MEMBERS.get(ctx.principal.id or "")
    if tenant is None:
        raise ToolError("You are not a member of an organization.")
    return tenant


class Customers:
    """The customers of one tenant. Every statement names the tenant."""

    def __init__(self, db: sqlite3.Connection, tenant: str) -> None:
        self._db, self._tenant = db, tenant

    def add(self, name: str) -> None:
        self._db.execute(
            "insert into customers values (?, ?)", [self._tenant, name]
        )

    def names(self) -> list[str]:
        rows = self._db.execute(
            "select name from customers where tenant = ?", [self._tenant]
        )
        return [name for (name,) in rows]


def open_customers(
    tenant: Annotated[str, Depends(tenant_of_user)],
) -> Iterator[Customers]:
    """Open the database for one request of one tenant."""
    connection = sqlite3.connect("crm.db", check_same_thread=False)
    try:
        with connection:
            connection.execute(
                "create table if not exists customers (tenant, name)"
            )
            yield Customers(connection, tenant)
    finally:
        connection.close()


MyCustomers = Annotated[Customers, Depends(open_customers)]


@server.tool
def add_customer(name: str, customers: MyCustomers) -> str:
    """Add a customer of your organization."""
    customers.add(name)
    return f"Added {name}."


@server.tool(annotations={"readOnlyHint": True})
def list_customers(customers: MyCustomers) -> list[str]:
    """List the customers of your organization."""
    return customers.names()


if __name__ == "__main__":
    server.run()
