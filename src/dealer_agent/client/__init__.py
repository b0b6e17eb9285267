"""The client library for developers of buyer agents."""
