"""A new environment's file on each platform: a module each, named in the platform's row."""
