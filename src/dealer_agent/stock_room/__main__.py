"""`python -m dealer_agent.stock_room`: how the show room starts the process that makes a large snapshot."""

from dealer_agent.stock_room.making import run

if __name__ == "__main__":
    run()
