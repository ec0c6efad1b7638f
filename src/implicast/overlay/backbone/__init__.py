"""Backbone of brokers: a spanning tree, and for each neighbour a Bloom filter of the tags beyond
it.
"""
