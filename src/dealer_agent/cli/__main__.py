"""`python -m dealer_agent.cli`, where the command itself is not on the path."""

from dealer_agent.cli import main

if __name__ == "__main__":
    main()
