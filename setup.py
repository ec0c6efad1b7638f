"""What is compiled where there is a C compiler, the core of the world and the geometry; everything works without it."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    modules = []
else:
    sources = {"implicast.world._core": "world/_core.pyx", "implicast.space._kernels": "space/_kernels.pyx"}
    exact = ["-ffp-contract=off"]  # the same digits as the readable functions, whatever the processor can do at once
    modules = cythonize(
        [Extension(name, [f"src/implicast/{path}"], extra_compile_args=exact) for name, path in sources.items()],
        quiet=True,
    )
    for module in modules:
        module.optional = True  # cythonize forgets it where it was said before

setup(ext_modules=modules)
