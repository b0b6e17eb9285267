"""Who may do what in the console: the table of acts and roles. Pure."""

from dataclasses import dataclass
from enum import Enum, unique
from typing import Literal, get_args

Role = Literal["owner", "manager", "sales", "viewer"]
"""What a person is for a dealer."""
ROLES: tuple[Role, ...] = get_args(Role)
OPERATOR = "operator"
"""The role of a person for a whole installation. It opens no data of a dealer."""

ROLE_WORDS = {
    "owner": "everything, also people, tokens and settings",
    "manager": "leads, visits, holds, stock, agents and privacy",
    "sales": "leads, visits and holds, of all rooftops or of some",
    "viewer": "stock, holds, agents and demand, and no personal data",
    OPERATOR: "the list of all dealers, and their health",
}


@dataclass(frozen=True)
class Rule:
    """Who may do an act. `words` complete "You may not ...". With `again`, the person proves first who they are."""

    words: str
    roles: frozenset[str]
    again: bool = False
    needs_session: bool = True


def _allowed_for(words: str, *roles: str, again: bool = False) -> Rule:
    return Rule(words, frozenset(roles), again)


_ALL = ROLES
_STAFF = ("owner", "manager", "sales")
_HEADS = ("owner", "manager")


@unique
class Act(Enum):
    """What a person does with a page or a form. Each route names one."""

    SIGN_IN = Rule("sign in", frozenset(), needs_session=False)
    OWN_ACCOUNT = _allowed_for("change your own account", *_ALL, OPERATOR)
    OWN_CREDENTIALS = _allowed_for("change how you sign in", *_ALL, OPERATOR, again=True)
    SEE_DEALERS = _allowed_for("see all dealers", OPERATOR)
    SEE_TODAY = _allowed_for("see what waits", *_ALL)
    LIST_LEADS = _allowed_for("see the list of leads", *_ALL)
    OPEN_LEAD = _allowed_for("open a lead", *_STAFF)
    WORK_ON_LEAD = _allowed_for("change a lead", *_STAFF)
    DECIDE_QUARANTINE = _allowed_for("release or refuse a lead", *_HEADS)
    EXPORT_LEADS = _allowed_for("export leads", *_HEADS, again=True)
    ERASE_CUSTOMER = _allowed_for("erase a customer", *_HEADS, again=True)
    SEE_VISITS = _allowed_for("see visits", *_STAFF)
    CHANGE_VISIT = _allowed_for("change a visit", *_STAFF)
    SEE_STOCK = _allowed_for("see the stock", *_ALL)
    CHANGE_STOCK = _allowed_for("change the stock", *_HEADS)
    SEE_HOLDS = _allowed_for("see what agents hold", *_ALL)
    CHANGE_HOLD = _allowed_for("extend or end a hold", *_STAFF)
    SEE_AGENTS = _allowed_for("see the agents", *_ALL)
    CHANGE_POLICY = _allowed_for("change the policy of an agent", *_HEADS)
    CHANGE_TOKENS = _allowed_for("make or revoke tokens", "owner", again=True)
    SEE_DEMAND = _allowed_for("see the demand", *_ALL)
    ASK = _allowed_for("ask your own agent", *_ALL)
    SEE_SETTINGS = _allowed_for("see the settings", *_HEADS)
    CHANGE_SETTINGS = _allowed_for("change the settings", "owner", again=True)
    SEE_PRIVACY = _allowed_for("see the privacy pages", *_HEADS)
    FIND_CUSTOMER = _allowed_for("find a customer", *_HEADS)
    WITHDRAW_CONSENT = _allowed_for("record that a customer withdrew consent", *_HEADS)
    SEE_ACCESS_LOG = _allowed_for("see the access log", "owner")
    SEE_PEOPLE = _allowed_for("see the people", "owner")
    CHANGE_PEOPLE = _allowed_for("invite or remove people", "owner", again=True)
    CHECK_HEALTH = _allowed_for("run the checks", *_HEADS)
    SEE_HEALTH = _allowed_for("see the health of the service", *_HEADS, "viewer")

    def allows(self, role: str | None) -> bool:
        """Whether a person with this role may do it."""
        return role in self.value.roles
