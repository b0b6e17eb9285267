"""Stores leads: the writer that commits them in groups, and the rows of leads and visits."""
