"""The servers beside which the service is measured. uvicorn starts each by its factory."""
