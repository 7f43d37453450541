"""Rules that every environment of this stack keeps, as a Pulumi policy pack."""
