"""The stock: feeds, canonical words, and the catalogue that answers searches. Pure, except that a feed is read from a
file.
"""
