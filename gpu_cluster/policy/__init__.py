"""Rules that every environment of this stack satisfies, as a Pulumi policy pack."""
