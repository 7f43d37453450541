"""The offline plugin that stands in for a cloud's resource provider, for any cloud."""
