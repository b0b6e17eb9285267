"""Feed files that a person gives to the service: each is kept for an hour, checked in a dry run, and then imported."""
