"""How settings are declared, decoded, checked and refused."""
