"""What is done to traced programs."""
