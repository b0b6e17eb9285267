"""What an operator does with a service: backups, and checks of its parts."""
