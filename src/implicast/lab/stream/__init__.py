"""A lake of live journals watched as it grows, with Spark Structured Streaming: `implicast lab
stream LAKE`.

parts of the lake -> events (events.py) -> what they come to (state.py) -> minutes and totals
(tables.py) -> page
"""
