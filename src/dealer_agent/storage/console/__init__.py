"""Stores who signs in to the console: people with their memberships, passkeys, invitations and sessions."""
