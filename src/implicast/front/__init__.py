"""The front door: a network to play with in one process, and the commands `try`, `explain` and
`compare`.
"""
