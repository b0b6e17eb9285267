"""Leads are taken here: decided purely, stored in one transaction, answered when durable (contract, part 10)."""
