"""What the service is measured beside, each started by uvicorn's factory form."""
