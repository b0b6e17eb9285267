"""Visits: booked by buyers, changed by staff and customers, and the notifications about them."""
