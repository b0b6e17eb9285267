"""Stores the stock and its imports, and the feeds that are collected."""
