"""How the offline plugins compare with the official ones: the same questions to both."""
