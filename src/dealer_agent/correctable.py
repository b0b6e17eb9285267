"""The root of all errors that a person can correct."""


class CorrectableError(Exception):
    """Its message says what happened and what to do. A command ends with the message and exit code 1."""
