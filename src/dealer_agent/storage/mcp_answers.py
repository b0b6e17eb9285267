"""Stores the answers of people to questions of the MCP server, until the process that asked has read them.

An answer may reach another process or machine than the one that holds the stream of the question. It is a row in the
table of jobs: its job is due when the question expires, and removes an answer that nobody has read. `result` has the
answer, encrypted by the caller.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, select

from dealer_agent.storage.jobs import THIS_JOB
from dealer_agent.storage.schema import jobs
from dealer_agent.storage.statements import upsert
from dealer_agent.storage.store import Store

MCP_ANSWER = "mcp_answer"
"""The kind of the jobs. The subject is the id of the question."""

ADD_ANSWER = upsert(jobs, "NOTHING")

READ_ANSWER = select(jobs.c.result).where(THIS_JOB)

REMOVE_ANSWER = delete(jobs).where(THIS_JOB)


class McpAnswers(NamedTuple):
    """The answers of one dealer. The methods read and write the database, so they run in a thread.

    They raise StorageError.
    """

    store: Store
    dealer_id: str

    def put(self, question_id: str, sealed: str, expires_at: datetime) -> None:
        """Stores an answer. The first answer to a question stays."""
        row = {"kind": MCP_ANSWER, "subject": question_id, "due_at": expires_at, "attempts": 0, "result": sealed}
        with self.store.write(self.dealer_id) as tx:
            tx.execute(ADD_ANSWER, row)

    def find(self, question_id: str) -> str | None:
        """The answer to a question, if it has come."""
        with self.store.read(self.dealer_id) as tx:
            answer: str | None = tx.execute(READ_ANSWER, _named(question_id)).scalar()
        return answer

    def remove(self, question_id: str) -> None:
        """Removes an answer that has been used."""
        with self.store.write(self.dealer_id) as tx:
            tx.execute(REMOVE_ANSWER, _named(question_id))


def _named(question_id: str) -> dict[str, str]:
    return {"of_kind": MCP_ANSWER, "of_subject": question_id}
