"""The deterministic simulation: carries messages between peers, keeps time, injects faults, writes
the journal and checks the contract.
"""
