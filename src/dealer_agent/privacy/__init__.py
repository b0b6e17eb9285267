"""What the service does for the privacy of customers: erasure, disposal by age, keys, recorded heads of chains."""
