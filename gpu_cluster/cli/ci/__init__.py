"""Commands for continuous integration: previews without credentials, and their comment."""
