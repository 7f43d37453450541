"""How each platform is simulated: a module each, named in the table of platforms."""
