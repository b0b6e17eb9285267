"""The stock: feeds in, vocabulary, and the catalogue that answers searches. Pure but for reading a feed."""
