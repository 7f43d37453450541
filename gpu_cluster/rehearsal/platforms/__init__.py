"""How each platform is simulated: one module each, named in the table of platforms."""
