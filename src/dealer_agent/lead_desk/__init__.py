"""Leads are taken here: decided purely, stored in one transaction, answered when durable (contract, part 10)."""

from dealer_agent.lead_desk.calling_off import NoVisitToCancel
from dealer_agent.lead_desk.customer_desk import CustomerDesk
from dealer_agent.lead_desk.desk import LeadDesk

__all__ = ["CustomerDesk", "LeadDesk", "NoVisitToCancel"]
