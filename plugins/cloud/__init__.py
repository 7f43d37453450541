"""The strict stand-in for a cloud's resource provider, whichever the cloud."""
