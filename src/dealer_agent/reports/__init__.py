"""The monthly report: what agents asked a dealer, in counts, as a page, a mail, a text and JSON."""
