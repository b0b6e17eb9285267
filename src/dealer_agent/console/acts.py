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


def _for(words: str, *roles: str, again: bool = False) -> Rule:
    return Rule(words, frozenset(roles), again)


_ALL = ROLES
_STAFF = ("owner", "manager", "sales")
_HEADS = ("owner", "manager")


@unique
class Act(Enum):
    """What a person does with a page or a form. Each route names one."""

    SIGN_IN = Rule("sign in", frozenset(), needs_session=False)
    OWN_ACCOUNT = _for("change your own account", *_ALL, OPERATOR)
    OWN_CREDENTIALS = _for("change how you sign in", *_ALL, OPERATOR, again=True)
    SEE_DEALERS = _for("see all dealers", OPERATOR)
    SEE_TODAY = _for("see what waits", *_ALL)
    LIST_LEADS = _for("see the list of leads", *_ALL)
    OPEN_LEAD = _for("open a lead", *_STAFF)
    WORK_ON_LEAD = _for("change a lead", *_STAFF)
    DECIDE_QUARANTINE = _for("release or refuse a lead", *_HEADS)
    EXPORT_LEADS = _for("export leads", *_HEADS, again=True)
    ERASE_CUSTOMER = _for("erase a customer", *_HEADS, again=True)
    SEE_VISITS = _for("see visits", *_STAFF)
    CHANGE_VISIT = _for("change a visit", *_STAFF)
    SEE_STOCK = _for("see the stock", *_ALL)
    CHANGE_STOCK = _for("change the stock", *_HEADS)
    SEE_HOLDS = _for("see what agents hold", *_ALL)
    CHANGE_HOLD = _for("extend or end a hold", *_STAFF)
    SEE_AGENTS = _for("see the agents", *_ALL)
    CHANGE_POLICY = _for("change the policy of an agent", *_HEADS)
    CHANGE_TOKENS = _for("make or revoke tokens", "owner", again=True)
    SEE_DEMAND = _for("see the demand", *_ALL)
    ASK = _for("ask your own agent", *_ALL)
    SEE_SETTINGS = _for("see the settings", *_HEADS)
    CHANGE_SETTINGS = _for("change the settings", "owner", again=True)
    SEE_PRIVACY = _for("see the privacy pages", *_HEADS)
    FIND_CUSTOMER = _for("find a customer", *_HEADS)
    WITHDRAW_CONSENT = _for("record that a customer withdrew consent", *_HEADS)
    SEE_ACCESS_LOG = _for("see the access log", "owner")
    SEE_PEOPLE = _for("see the people", "owner")
    CHANGE_PEOPLE = _for("invite or remove people", "owner", again=True)
    CHECK_HEALTH = _for("run the checks", *_HEADS)
    SEE_HEALTH = _for("see the health of the service", *_HEADS, "viewer")

    def allows(self, role: str | None) -> bool:
        """Whether a person with this role may do it."""
        return role in self.value.roles
