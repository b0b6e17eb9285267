"""Leads are taken here: decided purely, stored in one transaction, answered when durable (contract, part 10)."""

from dealer_agent.lead_intake.cancellation import NoVisitToCancel
from dealer_agent.lead_intake.customer_actions import CustomerActions
from dealer_agent.lead_intake.intake import LeadIntake

__all__ = ["CustomerActions", "LeadIntake", "NoVisitToCancel"]
