"""An existing cluster on any platform."""
