"""The papers' experiments as data, one small file each; `implicast lab list` shows them."""
