"""The designs: how a cast reaches its group. Siblings never import each other; `designs.py` lists them."""
