"""What continuous integration needs: previews without credentials, and their comment."""
