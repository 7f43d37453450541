"""Facts about the clouds' resource types, as data; `read.py` reads it and imports no SDK."""
