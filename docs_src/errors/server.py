from mcpkit import Server, ToolError

server = Server("bank")

ACCOUNTS = {"ada": 120}


@server.tool
def withdraw(account: str, amount: int) -> int:
    """Take money from an account and return what is left."""
    if account not in ACCOUNTS:
        known = ", ".join(ACCOUNTS)
        raise ToolError(
            f"There is no account {account!r}. The accounts are: {known}."
        )
    if amount > ACCOUNTS[account]:
        raise ToolError(f"Only {ACCOUNTS[account]} left; ask for no more.")
    ACCOUNTS[account] -= amount
    return ACCOUNTS[account]


if __name__ == "__main__":
    server.run()
