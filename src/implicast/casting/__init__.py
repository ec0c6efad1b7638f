"""The designs. `designs.py` lists them; no design imports another."""
