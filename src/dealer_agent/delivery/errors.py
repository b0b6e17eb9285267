"""The reasons why a delivery is not sent. Pure."""

from datetime import timedelta


class NotDelivered(Exception):  # noqa: N818 - it says what happened
    """The attempt failed, or its result is unknown. `problem` has no personal data and no text of a server.

    `channel_failed`: the circuit breaker of the channel counts it. Otherwise the receiver works and refused only this
    delivery. `permanent`: the receiver says that no later attempt will succeed, which is not always true.
    `may_have_arrived`: the receiver got some of it and did not refuse it.
    """

    def __init__(
        self,
        problem: str,
        *,
        channel_failed: bool = True,
        permanent: bool = False,
        retry_after: timedelta | None = None,
        may_have_arrived: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.channel_failed = channel_failed
        self.permanent = permanent
        self.retry_after = retry_after
        self.may_have_arrived = may_have_arrived


class _NotSendable(Exception):  # noqa: N818 - it says what happened
    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class DeliveryDropped(_NotSendable):
    """The delivery must not be sent: the customer was erased, or the message is out of date."""


class NeedsNewId(_NotSendable):
    """The document of the first attempt must not be sent again. The delivery continues with another id."""
