"""Answers A2A's ListTasks: the agent keeps no tasks, so every page is empty (docs/protocol.md#list-tasks). Pure."""

import re
from typing import Any

import msgspec

from dealer_agent.protocol.problems import Problem, validation_error

USUAL_PAGE = 50
LARGEST_PAGE = 100


class TaskPage(Exception):  # noqa: N818 - no error: it ends the checks of a request that needs no skill
    """The response to ListTasks. `body` is a page in JSON."""

    # A request for a skill has a vocabulary, by its media type. This one has none.
    vocabulary = None

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body


def task_page(page_size: Any = None, page_token: Any = None) -> TaskPage:
    """The page that a request asks for, with its values as JSON or as the text of a query; None for an absent one.

    Raises SchemaValidationFailed for a size that is not a number from 1 to 100. It raises the same error for a token,
    because no page has a next one.
    """
    problems = []
    if isinstance(page_size, str) and re.fullmatch("[0-9]{1,9}", page_size):
        page_size = int(page_size)
    size = USUAL_PAGE if page_size is None else page_size
    if type(size) is not int or not 1 <= size <= LARGEST_PAGE:
        problems.append(Problem(("pageSize",), f"must be a number from 1 to {LARGEST_PAGE}", "maximum"))
    if page_token:
        problems.append(Problem(("pageToken",), "is unknown: all tasks are on one page", "const"))
    if problems:
        raise validation_error(problems, "envelope")
    return TaskPage(msgspec.json.encode({"tasks": [], "totalSize": 0, "pageSize": size, "nextPageToken": ""}))
