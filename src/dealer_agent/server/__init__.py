"""The service on the network: routes, the two bindings, tokens, limits, logs and pages."""
