"""The root of all errors that a person can correct."""


class CorrectableError(Exception):
    """An error that a person can correct.

    Its message says what happened and what to do. A command ends with the message and exit code 1.
    """


class NotPossible(CorrectableError):  # noqa: N818 - it says what happened
    """An act of a person is not possible now, and nothing was changed.

    `reason` says why. `advice` is the rest of the message: what to type instead. The console shows the reason only.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}{advice}")
        self.reason, self.advice = reason, advice
