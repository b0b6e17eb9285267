"""What a buyer pays in all: the lines of a price with taxes and charges, by the dealer's settings. Pure."""
