"""The documentation of the API: the OpenAPI document, examples, and the meaning of fields and statuses. Pure."""
