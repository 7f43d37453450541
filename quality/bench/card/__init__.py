"""The acceptance test beside a program written for the card, on one machine in one run."""
