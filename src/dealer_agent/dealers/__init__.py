"""The dealer: profile, opening hours, offers and channels of leads. Pure."""
