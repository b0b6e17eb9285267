"""The dealer: who it is, where and when it is open, what it charges, what it offers. Pure."""
