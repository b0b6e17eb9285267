"""What a lead is: consent, who asks, which vehicle, what is answered. Pure: the clock is an argument."""
