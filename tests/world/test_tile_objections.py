"""What is wrong with columns of a surface is seen."""

import numpy as np
import pytest

from implicast.space.digest import stream
from implicast.world.populations.surface import adjacency, tiles_of, tiling, uniform_points
from implicast.world.populations.tile_objections import cover_objections, table_objections


def surface(peers, dimensions):
    return tiling(uniform_points(peers, stream(1, "surface").getrandbits), dimensions)


@pytest.mark.parametrize("dimensions", [2, 3, 6])
@pytest.mark.parametrize("peers", [1, 2, 3, 7, 60, 500])
def test_a_whole_surface_has_no_objections(peers, dimensions):
    tiles = surface(peers, dimensions)

    assert not list(cover_objections(tiles))
    assert not list(table_objections(tiles, *adjacency(tiles)))


def test_codes_that_nobody_owns_are_seen():
    tiles = surface(20, 3)
    bits = tiles.bits.copy()
    bits[4] += 1

    assert len(list(cover_objections(tiles_of(tiles.low, bits, 3)))) == 1


def test_a_neighbour_that_a_table_lacks_is_missed():
    tiles = surface(60, 3)
    one, other = adjacency(tiles)
    found = list(table_objections(tiles, np.delete(one, 7), np.delete(other, 7)))

    assert found == [f"{one[7]} has a table that is wrong about what is beside it"]


def test_one_that_is_in_a_table_and_beside_nobody_there_is_seen():
    tiles = surface(60, 3)
    one, other = adjacency(tiles)
    stranger = next(
        each for each in range(60) if each != one[0] and each not in other[one == one[0]]
    )

    found = list(table_objections(tiles, np.append(one, one[0]), np.append(other, stranger)))

    assert found == [f"{stranger} is in the table of a tile that it does not touch"]
