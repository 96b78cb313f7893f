from mcpkit import Server

server = Server("kitchen")


@server.prompt(title="Plan meals")
def plan_meals(days: int, diet: str = "anything") -> str:
    """Plan the meals of some days.

    Args:
        days: How many days.
        diet: What may be eaten.
    """
    meals = f"{days * 3} meals of {diet} for {days} days"
    return f"Plan {meals}. Use up what is open first."


if __name__ == "__main__":
    server.run()
