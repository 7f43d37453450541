"""The offline plugin in place of a cloud's resource provider, whichever the cloud."""
