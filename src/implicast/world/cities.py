"""Places for generated networks: the largest metropolitan areas of the United States, and four
places overseas.
"""

from implicast.world.topology import Place

UNITED_STATES: tuple[tuple[str, Place, float], ...] = (
    # name, (latitude, longitude), inhabitants of the metropolitan area in millions (2000 census,
    # rounded)
    ("New York", (40.71, -74.01), 18.3),
    ("Los Angeles", (34.05, -118.24), 12.4),
    ("Chicago", (41.88, -87.63), 9.1),
    ("Philadelphia", (39.95, -75.17), 5.7),
    ("Dallas", (32.78, -96.80), 5.2),
    ("Miami", (25.76, -80.19), 5.0),
    ("Washington", (38.91, -77.04), 4.8),
    ("Houston", (29.76, -95.37), 4.7),
    ("Detroit", (42.33, -83.05), 4.5),
    ("Boston", (42.36, -71.06), 4.4),
    ("Atlanta", (33.75, -84.39), 4.2),
    ("San Francisco", (37.77, -122.42), 4.1),
    ("Phoenix", (33.45, -112.07), 3.3),
    ("Seattle", (47.61, -122.33), 3.0),
    ("Minneapolis", (44.98, -93.27), 3.0),
    ("San Diego", (32.72, -117.16), 2.8),
    ("St. Louis", (38.63, -90.20), 2.7),
    ("Baltimore", (39.29, -76.61), 2.6),
    ("Pittsburgh", (40.44, -80.00), 2.4),
    ("Tampa", (27.95, -82.46), 2.4),
    ("Denver", (39.74, -104.99), 2.2),
    ("Cleveland", (41.50, -81.69), 2.1),
    ("Cincinnati", (39.10, -84.51), 2.0),
    ("Portland", (45.52, -122.68), 1.9),
    ("Kansas City", (39.10, -94.58), 1.8),
    ("Sacramento", (38.58, -121.49), 1.8),
    ("San Jose", (37.34, -121.89), 1.7),
    ("San Antonio", (29.42, -98.49), 1.7),
    ("Orlando", (28.54, -81.38), 1.6),
    ("Columbus", (39.96, -83.00), 1.6),
    ("Indianapolis", (39.77, -86.16), 1.5),
    ("Las Vegas", (36.17, -115.14), 1.4),
    ("Charlotte", (35.23, -80.84), 1.3),
    ("New Orleans", (29.95, -90.07), 1.3),
    ("Salt Lake City", (40.76, -111.89), 1.0),
    ("Nashville", (36.16, -86.78), 1.3),
)

OVERSEAS: tuple[tuple[str, Place], ...] = (
    ("Denmark", (55.68, 12.57)),
    ("Taiwan", (25.03, 121.57)),
    ("Singapore", (1.35, 103.82)),
    ("Indonesia", (-6.21, 106.85)),
)
