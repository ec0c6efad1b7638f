"""The peer's host and what applications use: inbox, outbox, receipts, subscriptions, membership,
large payloads, proxies. Above `observation`.
"""
