"""Random numbers by name: what every draw shares (`drawing`), then `samplers`, then what draws along an axis (`choosing`)."""
