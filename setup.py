"""Compiled where a C compiler is: core, geometry, records, lists of a graph, questions. All works without it."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    modules = []
else:
    names = (
        "world._core",
        "world._arenas",
        "world._lanes",
        "space._kernels",
        "casting.spice._records",
        "overlay.skip_graph._lists",
        "peer._requests",
    )
    exact = [
        "-ffp-contract=off"
    ]  # the same digits as the readable functions, whatever the processor can do at once
    modules = cythonize(
        [
            Extension(
                f"implicast.{name}",
                [f"src/implicast/{name.replace('.', '/')}.pyx"],
                extra_compile_args=exact,
            )
            for name in names
        ],
        quiet=True,
    )
    for module in modules:
        module.optional = True  # cythonize forgets it where it was said before

setup(ext_modules=modules)
