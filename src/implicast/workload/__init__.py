"""Who registers what and who casts what to whom: drawn by key, or read from tables. START:
`workload.py`.
"""
