"""A dealer agent: answers AI shopping agents over A2A about one dealership's cars, and receives leads for it."""

__version__ = "0.1.0"
